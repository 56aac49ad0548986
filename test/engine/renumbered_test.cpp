// SPDX-License-Identifier: Apache-2.0
// Endpoints over UDP whose device gets another address while a session lives. They run in a child
// process with a network namespace of its own.
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "hawser/engine.hpp"
#include "hawser/nics.hpp"
#include "test/support/hang_limit.hpp"

namespace hawser::engine {
namespace {

using test::HangLimit;

bool ip(const std::string& words) { return std::system(("ip " + words).c_str()) == 0; }

struct Ends {
  Engine engine_a;
  Engine engine_b;
  std::unique_ptr<Endpoint> a;
  std::unique_ptr<Endpoint> b;
  PeerId b_of_a = kAnyPeer;
  PeerId a_of_b = kAnyPeer;

  explicit Ends(unsigned threads)
      : engine_a({{"udp:10.9.0.1"}, threads, {}, ""}),
        engine_b({{"udp:10.8.0.1"}, threads, {}, ""}),
        a(engine_a.create_endpoint({})),
        b(engine_b.create_endpoint({})) {
    if (a->connect(b->address(), b_of_a) != Status::ok) ::_exit(2);
    if (b->connect(a->address(), a_of_b) != Status::ok) ::_exit(2);
  }

  // Exchanges a message in each direction. Both ends may sleep in between.
  [[nodiscard]] bool exchange(std::uint64_t tag) {
    std::vector<std::byte> out(100'000, std::byte{7});
    std::vector<std::byte> in_a(out.size());
    std::vector<std::byte> in_b(out.size());
    OperationId id = kNoOperation;
    const bool posted =
        a->receive({.peer = b_of_a, .tag = tag, .data = in_a.data(), .bytes = in_a.size()}, id) ==
            Status::ok &&
        b->receive({.peer = a_of_b, .tag = tag, .data = in_b.data(), .bytes = in_b.size()}, id) ==
            Status::ok &&
        a->send({.peer = b_of_a, .tag = tag, .data = out.data(), .bytes = out.size()}, id) ==
            Status::ok &&
        b->send({.peer = a_of_b, .tag = tag, .data = out.data(), .bytes = out.size()}, id) ==
            Status::ok;
    if (!posted) return false;
    int left = 4;
    for (const HangLimit limit; left > 0 && !limit.is_over();) {
      for (Endpoint* end : {a.get(), b.get()}) {
        Completion done;
        if (end->wait(std::span(&done, 1), 1'000'000) == 0) continue;
        if (done.status != Status::ok) return false;
        --left;
      }
    }
    return left == 0 && in_a == out && in_b == out;
  }
  [[nodiscard]] bool hears(Event::Kind kind) {
    for (const HangLimit limit; !limit.is_over();) {
      Event event;
      while (a->poll_events(std::span(&event, 1)) == 1) {
        if (event.kind == kind) return true;
      }
      Completion none;
      (void)a->wait(std::span(&none, 1), 1'000'000);
      (void)b->wait(std::span(&none, 1), 1'000'000);
    }
    return false;
  }
};

// Returns the number of the first error, or 0.
int renumber(unsigned threads) {
  for (const char* const words :
       {"link set lo up", "link add d0 type veth peer name p0",
        "link add d1 type veth peer name p1", "link set p0 up", "link set p1 up", "link set d0 up",
        "link set d1 up", "addr add 10.9.0.1/24 dev d0", "addr add 10.8.0.1/24 dev d1"}) {
    if (!ip(words)) return 3;
  }
  Ends ends(threads);
  if (!ends.exchange(1)) return 4;
  // An address service that assigns another address removes the old one first.
  if (!ip("addr del 10.9.0.1/24 dev d0") || !ends.hears(Event::Kind::nic_down)) return 5;
  if (!ip("addr add 10.9.0.77/24 dev d0") || !ends.hears(Event::Kind::nic_moved)) return 6;
  if (!ends.exchange(2)) return 7;
  // Now the new address comes before the old one goes.
  if (!ip("addr add 10.9.0.99/16 dev d0") || !ip("addr del 10.9.0.77/24 dev d0")) return 8;
  if (!ends.hears(Event::Kind::nic_moved) || !ends.exchange(3)) return 9;
  return ends.a->stats().sessions_established == 1 ? 0 : 10;
}

// Returns the number of the first error, or 0.
int list_labelled() {
  for (const char* const words :
       {"link add d0 type veth peer name p0", "link set p0 up", "link set d0 up",
        "addr add 10.9.0.1/24 dev d0", "addr add 10.9.0.2/24 dev d0 label d0:2"}) {
    if (!ip(words)) return 3;
  }
  int found = 0;
  for (const HostNic& nic : host_nics()) {
    if (!nic.name.starts_with("udp:10.9.0.")) continue;
    ++found;
    if (nic.device != "d0") return 4;
  }
  return found == 2 ? 0 : 5;
}

// Runs `body` in a child with a network namespace of its own.
void in_namespace(const std::function<int()>& body) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::alarm(test::kHangLimitMs / 1000);
    ::_exit(::unshare(CLONE_NEWNET) == 0 ? body() : 77);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) {
    WARN("no permission to make a network namespace: not tested");
    return;
  }
  CHECK(WEXITSTATUS(status) == 0);
}

}  // namespace

TEST_CASE("endpoints over UDP: a session survives that its only NIC's device is renumbered") {
  for (const unsigned threads : {0u, 1u}) {
    INFO(threads << " threads");
    in_namespace([&] { return renumber(threads); });
  }
}

TEST_CASE("host_nics: an address with a label is one of its device") {
  in_namespace(list_labelled);
}

}  // namespace hawser::engine
