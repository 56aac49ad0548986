// SPDX-License-Identifier: Apache-2.0
// The rendezvous where callers choose among several addresses, and where strangers call.
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine/bootstrap/bootstrap.hpp"
#include "engine/bootstrap/bootstrap_wire.hpp"
#include "test/engine/rendezvous_scene.hpp"
#include "test/support/hang_limit.hpp"

namespace hawser::engine {
namespace {

using test::kHangLimitMs;

// A listener on a loopback address that only the test uses.
class Listener {
 public:
  // Port 0 lets the kernel choose.
  Listener(const std::string& address, int backlog)
      : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    bootstrap::Endpoint endpoint = bootstrap::resolve(address).front();
    REQUIRE(::bind(fd_, endpoint.get(), endpoint.bytes) == 0);
    REQUIRE(::listen(fd_, backlog) == 0);
    endpoint.bytes = sizeof endpoint.storage;
    REQUIRE(::getsockname(fd_, endpoint.get(), &endpoint.bytes) == 0);
    address_ = bootstrap::text_of(endpoint);
  }
  ~Listener() {
    for (const int fd : callers_) ::close(fd);
    ::close(fd_);
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  [[nodiscard]] const std::string& address() const { return address_; }
  // From here on the kernel drops every connection attempt.
  void swallow() { callers_.push_back(connect_raw(address_)); }
  [[nodiscard]] int accept() const { return ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC); }

 private:
  int fd_;
  std::vector<int> callers_;
  std::string address_;
};

// The port and the nonce of a published address.
struct Published {
  explicit Published(const std::string& text)
      : port(
            bootstrap::port_of(bootstrap::resolve(bootstrap::parse_meeting(text).addresses[0])[0])),
        nonce(bootstrap::parse_meeting(text).nonce) {}
  [[nodiscard]] std::string behind(const std::string& first) const {
    return bootstrap::text_of(
        bootstrap::Meeting{{first, "127.0.0.1:" + std::to_string(port)}, nonce});
  }
  std::uint16_t port;
  std::uint64_t nonce;
};

TEST_CASE("Meeting__addresses_and_nonce_as_text") {
  const std::string text = "10.0.0.1:29400,[fd00::1]:29400#f123456789abcdef";
  const bootstrap::Meeting meeting = bootstrap::parse_meeting(text);
  CHECK(meeting.addresses == std::vector<std::string>{"10.0.0.1:29400", "[fd00::1]:29400"});
  CHECK(meeting.nonce == 0xf123456789abcdef);
  CHECK(bootstrap::text_of(meeting) == text);
  CHECK(bootstrap::parse_meeting("node0:1").nonce == 0);
  for (const char* wrong : {"node0:1#", "node0:1#0", "node0:1#xyz", "node0:1#1 "}) {
    CHECK(error_of([&] { (void)bootstrap::parse_meeting(wrong); }).failure() ==
          BootstrapFailure::bad_address);
  }
  CHECK(bootstrap::text_of(bootstrap::resolve("[::1]:80").front()) == "[::1]:80");
}

TEST_CASE("Rendezvous__everywhere_is_at_each_of_the_addresses") {
  RendezvousServer server(RendezvousServer::Everywhere{{"127.0.0.1", "127.0.0.2"}}, 2);
  const Published published(server.address());
  CHECK(published.nonce != 0);
  CHECK_THAT(server.address(),
             Catch::StartsWith("127.0.0.1:" + std::to_string(published.port) + ",127.0.0.2:"));
  run_ranks(2, [&](std::uint32_t rank) {
    Rendezvous rendezvous(server.address(), rank, 2, kHangLimitMs);
    rendezvous.barrier(kHangLimitMs);
  });
}

// docker0 has the same address on every host: what answers there need not be rank 0.
TEST_CASE("Rendezvous__another_job_at_the_first_address_is_not_taken_for_rank_0") {
  RendezvousServer other(RendezvousServer::Everywhere{{"127.0.0.1"}}, 1);
  RendezvousServer server(RendezvousServer::Everywhere{{"127.0.0.1"}}, 1);
  const std::string others = "127.0.0.1:" + std::to_string(Published(other.address()).port);
  Rendezvous rank(Published(server.address()).behind(others), 0, 1, kHangLimitMs);
  rank.barrier(kHangLimitMs);
  // Nobody has joined the other job.
  Rendezvous rank_of_other(other.address(), 0, 1, kHangLimitMs);
  CHECK(rank_of_other.job_secret() != rank.job_secret());
}

TEST_CASE("Rendezvous__an_address_that_swallows_packets_does_not_keep_the_others_waiting") {
  Listener hole("127.0.0.3:0", 0);
  hole.swallow();
  RendezvousServer server("127.0.0.1:0", 1);
  const test::HangLimit limit;
  Rendezvous rank(hole.address() + "," + server.address(), 0, 1, 100 * kHangLimitMs);
  CHECK_FALSE(limit.is_over());
  rank.barrier(kHangLimitMs);
}

TEST_CASE("Rendezvous__whoever_says_something_else_is_passed_over") {
  Listener stranger("127.0.0.3:0", 16);
  RendezvousServer server(RendezvousServer::Everywhere{{"127.0.0.1"}}, 1);
  const auto [words, name] = GENERATE(table<std::string, std::string>(
      {{"", "nothing, and closes"},
       {"HTTP/1.1 400 Bad Request\r\n\r\n", "what it knows"},
       {std::string("\x08\0\0\0\x09\0\0\0........", 16), "HERE with another nonce"}}));
  INFO(name);
  std::thread answer([&] {
    const int fd = stranger.accept();
    (void)::send(fd, words.data(), words.size(), MSG_NOSIGNAL);
    ::close(fd);
  });
  Rendezvous rank(Published(server.address()).behind(stranger.address()), 0, 1, kHangLimitMs);
  answer.join();
  rank.barrier(kHangLimitMs);
}

TEST_CASE("Rendezvous__its_error_says_of_each_address_why_it_did_not_serve") {
  Listener hole("127.0.0.3:0", 0);
  hole.swallow();
  Listener silent("127.0.0.4:0", 16);
  const std::string text = "127.0.0.5:9," + hole.address() + "," + silent.address();
  const BootstrapError error = error_of([&] { Rendezvous rank(text, 0, 1, 1000); });
  CHECK(error.failure() == BootstrapFailure::unreachable);
  CHECK_THAT(error.what(),
             Catch::StartsWith("No rendezvous answers at " + text + " within 1000 ms: ") &&
                 Catch::Contains("127.0.0.5:9: Connection refused (this host has that address") &&
                 Catch::Contains(hole.address() + ": Connection timed out") &&
                 Catch::Contains(silent.address() +
                                 ": a program there accepts the connection but does not answer") &&
                 Catch::EndsWith("(a launcher, or rank 0)"));
}

TEST_CASE("RendezvousServer__a_hello_is_answered_once_and_only_if_it_is_meant") {
  RendezvousServer server(RendezvousServer::Everywhere{{"127.0.0.1"}}, 1);
  const Published published(server.address());
  const auto answers = [&](std::uint64_t nonce, int times) {
    const int fd = connect_raw("127.0.0.1:" + std::to_string(published.port));
    std::vector<std::byte> hello;
    for (int i = 0; i < times; ++i) {
      bootstrap::append_frame(hello, bootstrap::FrameType::hello, 0,
                              bootstrap::BodyWriter().text(bootstrap::kMagic).number(nonce).body());
    }
    REQUIRE(::send(fd, hello.data(), hello.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(hello.size()));
    std::array<std::byte, 64> bytes;
    const ssize_t got = ::recv(fd, bytes.data(), bytes.size(), 0);
    ::close(fd);
    return got;
  };
  CHECK(answers(published.nonce, 1) == 16);
  CHECK(answers(0, 1) == 16);
  CHECK(answers(published.nonce ^ 1, 1) <= 0);
  CHECK(answers(0, 2) <= 0);
  Rendezvous rank(server.address(), 0, 1, kHangLimitMs);
  rank.barrier(kHangLimitMs);
}

TEST_CASE("RendezvousServer__strangers_disturb_nobody") {
  RendezvousServer server("127.0.0.1:0", 2);
  std::mt19937 random(5);
  std::vector<int> strangers;
  for (int i = 0; i < 40; ++i) {
    const int fd = connect_raw(server.address());
    std::vector<std::byte> junk(random() % 3000);
    for (std::byte& byte : junk) byte = static_cast<std::byte>(random());
    // Half of them look like the beginning of something.
    if (i % 2 == 0 && junk.size() > 8) {
      const auto bytes = static_cast<std::uint32_t>(random() % 100);
      std::memcpy(junk.data(), &bytes, sizeof bytes);
      junk[4] = static_cast<std::byte>(1 + random() % 9);
    }
    (void)::send(fd, junk.data(), junk.size(), MSG_NOSIGNAL);
    strangers.push_back(fd);
  }
  run_ranks(2, [&](std::uint32_t rank) {
    Rendezvous rendezvous(server.address(), rank, 2, kHangLimitMs);
    rendezvous.barrier(kHangLimitMs);
  });
  for (const int fd : strangers) ::close(fd);
}

}  // namespace
}  // namespace hawser::engine
