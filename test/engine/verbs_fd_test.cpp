// SPDX-License-Identifier: Apache-2.0
// The descriptor of an endpoint that its caller's event loop drives, over NICs that wake only a
// caller that has armed them.
#include <poll.h>

#include <array>

#include "test/engine/driver/conformance/fake_rigs.hpp"
#include "test/engine/verbs_pair.hpp"

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

}  // namespace hawser::engine
