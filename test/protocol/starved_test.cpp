// SPDX-License-Identifier: Apache-2.0
// Messages were turned away for want of a descriptor. The receiver requests them soon after a
// descriptor is free, however seldom it asked before. No peer starves.
#include <catch2/catch.hpp>

#include "test/protocol/exchange.hpp"

namespace hawser::test {
namespace {

using proto::milliseconds;

constexpr std::uint32_t kHolder = 1;
constexpr std::uint32_t kFirstStarved = 2;
constexpr std::uint64_t kDescriptors = 16;  // the fewest that there may be

// Node 0 has no descriptor left. The holder's messages have all of them, and each other node has
// one message here by its reserve. The rest of its messages were turned away.
class Starved {
 public:
  explicit Starved(std::uint32_t nodes, std::uint64_t turned_away = 1,
                   std::uint64_t of_holder = kDescriptors, std::size_t bytes = 10)
      : world(config(nodes)), exchange(world) {
    world.connect_all();
    for (std::uint64_t i = 0; i < of_holder; ++i) (void)exchange.send(kHolder, 0, i, 10);
    world.run_for(milliseconds(20));
    for (std::uint32_t node = kFirstStarved; node < nodes; ++node) {
      for (std::uint64_t i = 0; i <= turned_away; ++i) {
        (void)exchange.send(node, 0, tag(node, i), i == 0 ? 10 : bytes);
      }
      world.run_for(milliseconds(1));
    }
    world.run_for(milliseconds(3000));  // the receiver asks ever less often, and so do senders
    REQUIRE(world.drops(0, DropReason::no_descriptor) > 0);
    for (std::uint32_t node = kFirstStarved; node < nodes; ++node) {
      if (of_holder == kDescriptors) REQUIRE_FALSE(is_here(node, 1));
    }
  }

  // Frees `count` of the holder's descriptors at one moment.
  void free(std::uint64_t count) {
    for (; count > 0; --count) (void)exchange.receive(0, kHolder, freed_++, 10);
  }
  // Whether the i-th message of the node waits here for its receive.
  [[nodiscard]] bool is_here(std::uint32_t node, std::uint64_t i) {
    Envelope envelope;
    return world.endpoint(0).probe(kAnyPeer, 0, tag(node, i), kWholeTag, envelope) == Status::ok;
  }
  [[nodiscard]] bool comes(std::uint32_t node, std::uint64_t i, proto::Duration within) {
    return world.run_until([&] { return is_here(node, i); }, within);
  }

  static std::uint64_t tag(std::uint32_t node, std::uint64_t i) { return 1000 * node + i; }

 private:
  static WorldConfig config(std::uint32_t nodes) {
    WorldConfig config = tiny_world();
    config.nodes = nodes;
    config.tunables.max_receive_messages = kDescriptors;
    config.tunables.max_peers = nodes;
    return config;
  }
  std::uint64_t freed_ = 0;

 public:
  World world;
  Exchange exchange;
};

// Long after an answer takes, and long before the receiver would ask by itself.
constexpr proto::Duration kSoon = milliseconds(2);

TEST_CASE("starved__peers_are_served_as_many_as_descriptors_are_freed", "[M9]") {
  constexpr std::uint32_t kNodes = 7;
  Starved s(kNodes);
  s.free(kNodes - kFirstStarved);
  for (std::uint32_t node = kFirstStarved; node < kNodes; ++node) {
    INFO("node " << node);
    CHECK(s.comes(node, 1, kSoon));
  }
}

TEST_CASE("starved__peers_take_turns", "[M9]") {
  constexpr std::uint32_t kNodes = 6;
  constexpr std::uint64_t kTurnedAway = 3;
  Starved s(kNodes, kTurnedAway);
  // The descriptors become free one after the other.
  for (std::uint64_t i = 1; i <= kTurnedAway; ++i) {
    for (std::uint32_t node = kFirstStarved; node < kNodes; ++node) {
      s.free(1);
      s.world.run_for(kSoon);
    }
    for (std::uint32_t node = kFirstStarved; node < kNodes; ++node) {
      INFO("node " << node << ", message " << i);
      CHECK(s.is_here(node, i));
    }
  }
}

// One peer's messages are received while those of the other wait. It takes half of the freed
// descriptors.
TEST_CASE("starved__a_peer_that_is_received_from_leaves_descriptors_to_others", "[M9]") {
  constexpr std::uint32_t kBusy = 2;
  constexpr std::uint32_t kOther = 3;
  // The busy peer has two descriptors besides its reserve.
  Starved s(4, 8, kDescriptors - 2);
  REQUIRE_FALSE(s.is_here(kBusy, 3));
  REQUIRE_FALSE(s.is_here(kOther, 1));
  for (std::uint64_t i = 0; i < 4; ++i) {
    (void)s.exchange.receive(0, kBusy, Starved::tag(kBusy, i), 10);
    s.world.run_for(kSoon);
  }
  CHECK(s.is_here(kBusy, 4));
  CHECK(s.is_here(kOther, 1));
}

// The request or its answer is lost. The next request comes as soon as it would after the very
// first one.
TEST_CASE("starved__what_is_lost_is_asked_for_again_soon", "[M9]") {
  for (const std::uint32_t loser : {0u, kFirstStarved}) {
    INFO("lost by node " << loser);
    Starved s(3);
    s.world.apply(loser, "loss=1");
    s.free(1);
    s.world.run_for(proto::microseconds(200));
    s.world.apply(loser, "loss=0");
    CHECK(s.comes(kFirstStarved, 1, milliseconds(10)));
  }
}

// Several peers have messages that were turned away, and some of these peers have died.
TEST_CASE("starved__peers_that_died_do_not_keep_descriptors_from_others", "[M9]") {
  constexpr std::uint32_t kNodes = 9;
  Starved s(kNodes);
  for (std::uint32_t node = kFirstStarved; node < kNodes - 1; ++node) s.world.crash(node, false);
  s.free(1);
  CHECK(s.comes(kNodes - 1, 1, milliseconds(20)));
}

// The lowest message may use the descriptor of a receive that waits for it.
TEST_CASE("starved__a_receive_brings_the_message_that_was_turned_away", "[M8][M9]") {
  const bool names_its_peer = GENERATE(true, false);
  constexpr std::uint32_t kNodes = 5;
  Starved s(kNodes);
  for (std::uint32_t node = kFirstStarved; node < kNodes; ++node) {
    const auto wanted =
        s.exchange.receive(0, names_its_peer ? node : kAnyNode, Starved::tag(node, 1), 10);
    CHECK(s.exchange.run_until([&] { return s.exchange.received(wanted).completion.has_value(); },
                               kSoon));
  }
}

// The receiver doesn't know the tags of messages that it turned away. A receive for another message
// requests them too. A request in vain costs a fragment, not the whole message.
TEST_CASE("starved__to_ask_in_vain_costs_one_fragment", "[M9]") {
  constexpr std::size_t kBytes = 100'000;
  Starved s(3, 1, kDescriptors, kBytes);
  const auto bytes_again = [&] {
    return s.world.endpoint(kFirstStarved).stats().bytes_retransmitted;
  };
  const std::uint64_t before = bytes_again();
  const std::uint64_t asked_before = s.world.stats(0).requests_sent;
  constexpr int kInVain = 8;
  for (std::uint64_t i = 0; i < kInVain; ++i) {
    (void)s.exchange.receive(0, kFirstStarved, 77'000 + i, 10);
    s.world.run_for(proto::microseconds(100));
  }
  CHECK(bytes_again() > before);  // the receiver requested it
  CHECK(bytes_again() - before <= (s.world.stats(0).requests_sent - asked_before) * 4096);
  const auto wanted = s.exchange.receive(0, kFirstStarved, Starved::tag(kFirstStarved, 1), kBytes);
  CHECK(s.exchange.run_until([&] { return s.exchange.received(wanted).completion.has_value(); },
                             kSoon));
}

}  // namespace
}  // namespace hawser::test
