// SPDX-License-Identifier: Apache-2.0
// The rendezvous at a host's name that a cluster publishes late, or still publishes with the
// address of a predecessor.
#include <dlfcn.h>
#include <netdb.h>

#include <catch2/catch.hpp>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "engine/bootstrap/bootstrap.hpp"
#include "engine/bootstrap/bootstrap_wire.hpp"
#include "test/engine/rendezvous_scene.hpp"
#include "test/support/hang_limit.hpp"

namespace {

constexpr std::string_view kName = "pod-0.test";
constexpr const char* kOnNoHost = "203.0.113.77";  // TEST-NET-3 (RFC 5737)

// The addresses that the name resolves to, one a call; the last one stays. Empty: the name is
// unknown.
class NameServer {
 public:
  void answer(std::vector<std::string> addresses) {
    const std::lock_guard lock(mutex_);
    addresses_ = std::move(addresses);
  }
  std::string next() {
    const std::lock_guard lock(mutex_);
    const std::string address = addresses_.front();
    if (addresses_.size() > 1) addresses_.erase(addresses_.begin());
    return address;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> addresses_{""};
};

NameServer& name_server() {
  static NameServer server;
  return server;
}

}  // namespace

// This replaces libc's function, which still resolves all other names.
extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints,
                           addrinfo** list) {
  static const auto real =
      reinterpret_cast<decltype(&::getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  if (node == nullptr || node != kName) return real(node, service, hints, list);
  const std::string address = name_server().next();
  return address.empty() ? EAI_NONAME : real(address.c_str(), service, hints, list);
}

namespace hawser::engine {
namespace {

using test::kHangLimitMs;

std::string at(std::uint16_t port) { return std::string(kName) + ":" + std::to_string(port); }

TEST_CASE("RendezvousServer__waits_for_a_name_that_becomes_known_later") {
  const std::vector<std::string> before =
      GENERATE(std::vector<std::string>{""}, std::vector<std::string>{kOnNoHost});
  CAPTURE(before);
  name_server().answer({before[0], before[0], "127.0.0.1"});
  RendezvousServer server(at(0), 1, {}, kHangLimitMs);
  Rendezvous rank(server.address(), 0, 1, kHangLimitMs);
  rank.barrier(kHangLimitMs);
}

TEST_CASE("RendezvousServer__a_name_that_is_never_ready_is_an_error_in_time") {
  const std::uint32_t timeout_ms = GENERATE(0u, 700u);
  const test::HangLimit limit;
  const auto error = [&](const std::string& answer) {
    name_server().answer({answer});
    return error_of([&] { RendezvousServer server(at(0), 1, {}, timeout_ms); });
  };
  CHECK(error("").failure() == BootstrapFailure::bad_address);
  CHECK_THAT(error("").what(), Catch::Contains("host pod-0.test is not known"));
  CHECK(error(kOnNoHost).failure() == BootstrapFailure::bad_address);
  CHECK_THAT(error(kOnNoHost).what(), Catch::EndsWith("this host has no such address"));
  CHECK_FALSE(limit.is_over());
}

TEST_CASE("RendezvousServer__what_time_does_not_mend_is_an_error_at_once") {
  const test::HangLimit limit;
  const auto failure = [](const std::string& address) {
    return error_of([&] { RendezvousServer server(address, 1, {}, 100 * kHangLimitMs); }).failure();
  };
  CHECK(failure(kOnNoHost + std::string(":0")) == BootstrapFailure::bad_address);
  CHECK(failure("pod-0.test") == BootstrapFailure::bad_address);
  const RendezvousServer taken("127.0.0.1:0", 1);
  CHECK(failure(taken.address()) == BootstrapFailure::port_in_use);
  CHECK_FALSE(limit.is_over());
}

TEST_CASE("Rendezvous__a_name_that_moves_is_resolved_again") {
  // Nobody listens at the one, and to the other, the broadcast address, there is no way.
  const std::string before = GENERATE(std::string("127.0.0.9"), std::string("255.255.255.255"));
  CAPTURE(before);
  const RendezvousServer server("127.0.0.1:0", 1);
  const std::uint16_t port = bootstrap::port_of(bootstrap::resolve(server.address()).front());
  name_server().answer({before, "127.0.0.1"});
  Rendezvous rank(at(port), 0, 1, kHangLimitMs);
  rank.barrier(kHangLimitMs);
}

TEST_CASE("Rendezvous__a_name_that_leads_to_another_program_is_resolved_again") {
  const RendezvousServer server("127.0.0.1:0", 1);
  const std::uint16_t port = bootstrap::port_of(bootstrap::resolve(server.address()).front());
  // The kernel accepts connections there, and nobody answers.
  const Descriptor other = bootstrap::listen_at("127.0.0.9:" + std::to_string(port), 0);
  name_server().answer({"127.0.0.9", "127.0.0.1"});
  Rendezvous rank(at(port), 0, 1, kHangLimitMs);
  rank.barrier(kHangLimitMs);
}

TEST_CASE("Rendezvous__a_name_that_is_forgotten_keeps_its_last_address") {
  std::string address;
  {
    const RendezvousServer first("127.0.0.1:0", 1);  // finds a port that is free
    address = first.address();
  }
  name_server().answer({"127.0.0.1", ""});
  constexpr std::uint32_t kPastTheNextLookMs = 3500;
  const BootstrapError error = error_of([&] {
    const std::uint16_t port = bootstrap::port_of(bootstrap::resolve(address).front());
    Rendezvous rank(at(port), 0, 1, kPastTheNextLookMs);
  });
  CHECK(error.failure() == BootstrapFailure::unreachable);
  CHECK_THAT(error.what(), Catch::Contains("refused"));
}

}  // namespace
}  // namespace hawser::engine
