// SPDX-License-Identifier: Apache-2.0
// An endpoint that is closed, and that its program keeps. Datagrams still come to its sockets.
#include <poll.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "test/engine/endpoint_pair.hpp"

namespace hawser::engine {
namespace {

bool is_readable(int fd) {
  pollfd polled{fd, POLLIN, 0};
  return ::poll(&polled, 1, 0) == 1;
}

// True if every engine thread of this process sleeps in the kernel. A thread that spins never does.
bool engine_threads_sleep() {
  std::size_t asleep = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "stat");
    std::string number, name, state;
    if (!(file >> number >> name >> state) || name != "(hawser-0)") continue;
    if (state != "S") return false;
    ++asleep;
  }
  return asleep > 0;
}

EngineConfig over_udp(const char* address, unsigned threads) {
  EngineConfig config;
  config.nics = {address};
  config.threads = threads;
  config.tunables = short_close();
  config.faults = "loss=0";  // so that faults can be injected
  return config;
}

// A caller without threads of its own, whose HELLO arrives at `called` before this returns.
struct LateCaller {
  explicit LateCaller(const Endpoint& called) {
    PeerId peer = kAnyPeer;
    REQUIRE(endpoint->connect(called.address(), peer) == Status::ok);
    REQUIRE(test::comes_true([&] {
      endpoint->poll({});
      return endpoint->stats().handshakes_sent > 0;
    }));
  }
  Engine engine{over_udp("udp:127.0.0.11", 0)};
  std::unique_ptr<Endpoint> endpoint = engine.create_endpoint({});
};

TEST_CASE("Endpoint__once_closed_its_fd_stays_quiet_whatever_comes") {
  Engine engine(over_udp("udp:127.0.0.1", 0));
  const std::unique_ptr<Endpoint> endpoint = engine.create_endpoint({});
  const int fd = endpoint->fd();
  endpoint->close();
  REQUIRE(test::comes_true([&] {
    endpoint->poll({});
    return !is_readable(fd);
  }));
  const LateCaller late(*endpoint);
  CHECK_FALSE(is_readable(fd));
  endpoint->poll({});
  CHECK_FALSE(is_readable(fd));
}

TEST_CASE("Endpoint__once_closed_its_engine_thread_sleeps_whatever_comes") {
  Engine engine(over_udp("udp:127.0.0.1", 1));
  const std::unique_ptr<Endpoint> endpoint = engine.create_endpoint({});
  endpoint->close();
  CHECK(test::comes_true(engine_threads_sleep));
  const LateCaller late(*endpoint);
  CHECK(test::comes_true(engine_threads_sleep));
  // A fault for a closed endpoint never applies.
  REQUIRE(engine.inject_fault(0, "loss=0.5") == Status::ok);
  CHECK(test::comes_true(engine_threads_sleep));
}

}  // namespace
}  // namespace hawser::engine
