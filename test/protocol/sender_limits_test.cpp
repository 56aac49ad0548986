// SPDX-License-Identifier: Apache-2.0
// What limits a sender ends, and whoever waits for that goes on. The test plays the receiver.
#include <catch2/catch.hpp>
#include <span>

#include "test/protocol/message_scene.hpp"

namespace hawser::test {
namespace {

using proto::microseconds;
using proto::milliseconds;
using proto::wire::MessageStatus;
using proto::wire::PacketWriter;

std::size_t count_again(const std::string& words) {
  std::size_t count = 0;
  for (std::size_t at = words.find("again"); at != std::string::npos;
       at = words.find("again", at + 1)) {
    ++count;
  }
  return count;
}

}  // namespace

// The packet of a finished message fills the window. It is found lost by a timer, as too few
// packets overtook it, and nothing of it is sent again. The next message must not wait for more.
TEST_CASE("sender_limits__a_timer_that_finds_a_loss_lets_the_next_message_go", "[P9]") {
  MessageScene scene;
  const auto soon = [&] { scene.world().run_for(microseconds(20)); };
  scene.control([&](PacketWriter& w) { REQUIRE(w.ack_info(1, 0, 9)); });
  soon();
  for (const std::size_t bytes : {MessageScene::kFragment, 2000u, MessageScene::kFragment}) {
    (void)scene.send(bytes, Level::delivered);
  }
  soon();
  REQUIRE(scene.heard(2) == "");  // the first two fill the window
  for (const std::uint32_t message : {0u, 1u}) scene.status(message, MessageStatus::delivered);
  // The second alone is acknowledged, and the window shrinks to one packet.
  scene.acknowledge_newest(5);
  scene.world().run_for(milliseconds(20));
  CHECK(scene.heard(2) == "data 0");
}

// One peer asks for all that was acknowledged before, again and again. The entries for what is lost
// on the way to others stay free: half of all.
TEST_CASE("sender_limits__requests_take_half_of_the_retransmissions_at_most", "[A10]") {
  WorldConfig config = MessageScene::defaults();
  config.tunables.max_in_flight_packets = 8;  // and twice as many entries
  MessageScene scene(config);
  constexpr std::uint32_t kFragments = 14;
  (void)scene.send(kFragments * MessageScene::kFragment, Level::delivered);
  const auto go_on = [&] {
    std::size_t again = 0;
    for (int i = 0; i < 20; ++i) {
      scene.settle();
      again += count_again(scene.heard(0));
      scene.acknowledge();
    }
    return again;
  };
  (void)go_on();
  scene.control([&](PacketWriter& w) { REQUIRE(w.grant(0, 5, 6, 2, kFragments)); });
  REQUIRE(go_on() == 0);  // all fragments have been there

  // Nothing of it leaves while the peer asks, as its allowance is used up by one packet.
  const auto ask_for_all = [&] {
    const std::uint64_t all = (std::uint64_t{1} << kFragments) - 1;
    scene.control([&](PacketWriter& w) { REQUIRE(w.request(0, 0, std::span(&all, 1))); });
    return go_on();
  };
  CHECK(ask_for_all() == 8);
  CHECK(ask_for_all() == 8);
}

}  // namespace hawser::test
