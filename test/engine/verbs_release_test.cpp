// SPDX-License-Identifier: Apache-2.0
// A device holds a send buffer longer than everything else of the send. The waiting caller gets the
// buffer back when the device lets go, although no packet comes and no protocol timer fires.
#include <poll.h>

#include <array>

#include "test/engine/driver/conformance/fake_rigs.hpp"
#include "test/engine/verbs_pair.hpp"

namespace hawser::engine {
namespace {

using test::Cables;
using test::RoceV6;

constexpr std::uint64_t kSecond = 1'000'000'000;

Tunables without_timers() {
  Tunables tunables = patient();
  tunables.rest_after_ms = 3'600'000;
  tunables.peer_timeout_ms = 3'600'000;
  return tunables;
}

// A registered send of `pair.a` that `end` ends while the device still holds its bytes.
template <class End>
RegistrationId end_a_held_send(VerbsPair& pair, Cables& cables, std::vector<std::byte>& bytes,
                               End end) {
  pair.exchange(*pair.a, 100'000, 5);
  RegistrationId registration{};
  REQUIRE(pair.a->register_memory(bytes.data(), bytes.size(), registration, nullptr) == Status::ok);
  cables.fabric.hold(true);
  std::array<Completion, 8> completions;
  const std::uint64_t before = pair.a->stats().payload_bytes_in_place;
  post_send(*pair.a, pair.b_of_a, 100, bytes, {});
  // Wait until the device has the send.
  const HangLimit limit;
  while (pair.a->stats().payload_bytes_in_place == before && !limit.is_over()) {
    CHECK(pair.a->wait(completions, kSecond / 1000) == 0);
  }
  end();
  REQUIRE(pair.a->wait(completions, kHangLimitNs) == 1);
  CHECK(completions[0].status == Status::endpoint_closed);
  REQUIRE_FALSE(completions[0].released);
  CHECK(pair.a->stats().sends_unreleased == 1);
  return registration;
}

// The device lets go without any event.
void check_given_back(VerbsPair& pair, Cables& cables, RegistrationId registration) {
  std::array<Completion, 8> completions;
  CHECK(pair.a->wait(completions, kSecond / 10) == 0);
  cables.fabric.hold(false);
  CHECK(pair.a->wait(completions, kHangLimitNs) == 1);
  CHECK(completions[0].released);
  CHECK(pair.a->stats().sends_unreleased == 0);
  CHECK(pair.a->deregister_memory(registration, nullptr) == Status::ok);
}

}  // namespace

TEST_CASE("VerbsRelease__what_is_let_go_of_after_a_disconnect_is_given_back_at_once") {
  const unsigned threads = GENERATE(0u, 1u);
  Cables cables(RoceV6{}, IBV_MTU_4096);
  VerbsPair pair(threads, without_timers());
  std::vector<std::byte> bytes = pattern(1'000'000, 3);
  const RegistrationId registration = end_a_held_send(
      pair, cables, bytes, [&] { CHECK(pair.a->disconnect(pair.b_of_a) == Status::ok); });
  check_given_back(pair, cables, registration);
}

TEST_CASE("VerbsRelease__what_is_let_go_of_after_close_is_given_back_too") {
  const unsigned threads = GENERATE(0u, 1u);
  Cables cables(RoceV6{}, IBV_MTU_4096);
  VerbsPair pair(threads, without_timers());
  std::vector<std::byte> bytes = pattern(1'000'000, 3);
  const RegistrationId registration =
      end_a_held_send(pair, cables, bytes, [&] { pair.a->close(); });
  check_given_back(pair, cables, registration);
}

TEST_CASE("VerbsRelease__the_descriptor_wakes_for_what_is_let_go_of") {
  const bool closed = GENERATE(false, true);
  Cables cables(RoceV6{}, IBV_MTU_4096);
  VerbsPair pair(0, without_timers());
  std::vector<std::byte> bytes = pattern(1'000'000, 3);
  (void)end_a_held_send(pair, cables, bytes, [&] {
    if (closed) {
      pair.a->close();
    } else {
      CHECK(pair.a->disconnect(pair.b_of_a) == Status::ok);
    }
  });
  std::array<Completion, 8> completions;
  const int fd = pair.a->fd();
  while (pair.a->poll(completions) > 0) {
  }
  cables.fabric.hold(false);
  std::size_t count = 0;
  for (const HangLimit limit; count == 0 && !limit.is_over();) {
    pollfd polled{fd, POLLIN, 0};
    REQUIRE(::poll(&polled, 1, kHangLimitMs) == 1);
    count = pair.a->poll(completions);
  }
  REQUIRE(count == 1);
  CHECK(completions[0].released);
}

}  // namespace hawser::engine
