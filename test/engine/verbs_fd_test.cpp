// SPDX-License-Identifier: Apache-2.0
// The descriptor of an endpoint that its caller's event loop drives, over NICs that wake only a
// caller that has armed them.
#include <poll.h>

#include <array>

#include "test/engine/driver/conformance/fake_rigs.hpp"
#include "test/engine/verbs_pair.hpp"
#include "test/support/own_process_view.hpp"

namespace hawser::engine {
namespace {

using test::Cables;
using test::RoceV6;

bool readable(int fd, int milliseconds) {
  pollfd polled{fd, POLLIN, 0};
  return ::poll(&polled, 1, milliseconds) == 1;
}

// Polls like an event loop with nothing else to do, until the descriptor lets it sleep.
bool gets_quiet(Endpoint& endpoint, int fd) {
  std::array<Completion, 8> none;
  for (const HangLimit limit; !limit.is_over();) {
    if (!readable(fd, 0)) return true;
    CHECK(endpoint.poll(none) == 0);
  }
  return false;
}

// With these tunables no timer of the protocol fires while a test waits.
Tunables without_timers() {
  Tunables tunables = patient();
  tunables.rest_after_ms = 3'600'000;
  tunables.peer_timeout_ms = 3'600'000;
  return tunables;
}

void send_short(VerbsPair& pair, std::uint64_t tag) {
  static const std::vector<std::byte> data(8, std::byte{7});  // outlives every send
  post_send(*pair.a, pair.b_of_a, tag, data, {});
}

// Drives both endpoints by polling alone, which arms nothing, until all sends have completed.
void settle(VerbsPair& pair, std::size_t sends) {
  std::array<Completion, 8> sent;
  for (std::size_t over = 0; over < sends;) {
    over += pair.a->poll(sent);
    pair.b->poll({});
  }
}

}  // namespace

TEST_CASE("VerbsFd__wakes_for_what_comes_after_completions_were_handed_out") {
  Cables cables(RoceV6{}, IBV_MTU_4096);
  VerbsPair pair(0, without_timers());
  std::array<std::vector<std::byte>, 3> received;
  for (std::uint64_t i = 0; i < 3; ++i) {
    received[i].resize(8);
    post_receive(*pair.b, kAnyPeer, 100 + i, received[i]);
  }
  // Two messages have arrived before the receiver is polled for completions.
  send_short(pair, 100);
  send_short(pair, 101);
  settle(pair, 2);
  const int fd = pair.b->fd();
  std::array<Completion, 8> completions;
  REQUIRE(pair.b->poll(completions) == 2);
  REQUIRE(gets_quiet(*pair.b, fd));
  send_short(pair, 102);
  pair.a->poll({});
  REQUIRE(readable(fd, kHangLimitMs));
  CHECK(pair.b->poll(completions) == 1);
}

TEST_CASE("VerbsFd__once_closed_it_stays_quiet_whatever_comes") {
  Cables cables(RoceV6{}, IBV_MTU_4096);
  Tunables tunables = without_timers();
  tunables.close_timeout_ms = 1;
  VerbsPair pair(0, tunables);
  std::vector<std::byte> received(8);
  post_receive(*pair.b, kAnyPeer, 100, received);
  send_short(pair, 100);
  settle(pair, 1);
  const int fd = pair.b->fd();
  std::array<Completion, 8> completions;
  REQUIRE(pair.b->poll(completions) == 1);
  REQUIRE(gets_quiet(*pair.b, fd));
  pair.b->close();
  REQUIRE(gets_quiet(*pair.b, fd));
  send_short(pair, 101);
  pair.a->poll({});
  CHECK_FALSE(readable(fd, 0));
}

TEST_CASE("VerbsFd__no_descriptor_outlives_its_endpoint_or_is_left_to_an_executed_program") {
  const unsigned threads = GENERATE(0u, 1u);
  CAPTURE(threads);
  Cables cables(RoceV6{}, IBV_MTU_4096);
  Tunables tunables = without_timers();
  tunables.close_timeout_ms = 1;
  { const VerbsPair first(threads, tunables); }  // what is made once for the process
  const std::set<int> before = test::open_descriptors();
  constexpr int kRounds = 100;
  for (int round = 0; round < kRounds; ++round) {
    const VerbsPair pair(threads, tunables);
    CHECK(pair.a->fd() >= 0);
    if (round > 0) continue;
    const std::set<int> now = test::open_descriptors();
    CHECK(now.size() > before.size());
    for (const int fd : now) {
      CAPTURE(fd);
      CHECK((before.contains(fd) || test::is_close_on_exec(fd)));
    }
  }
  CHECK(test::open_descriptors() == before);
}

}  // namespace hawser::engine
