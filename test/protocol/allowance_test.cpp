// SPDX-License-Identifier: Apache-2.0
// The receiver's allowance and its grants.
#include <catch2/catch.hpp>

#include "test/protocol/message_scene.hpp"

namespace hawser::test {
namespace {

using proto::wire::PacketWriter;

constexpr std::uint32_t kFragments = 40;

// The number of a message's fragments in flight. The receiver accepts `unasked` of them
// unscheduled, allows two packets' bytes, and grants all of the rest or nothing.
std::size_t under_way(std::uint32_t unasked, bool granted) {
  WorldConfig config = MessageScene::defaults();
  config.tunables.unscheduled_bytes = std::uint64_t{unasked} * MessageScene::kFragment;
  config.tunables.initial_window_packets = 2 * kFragments;
  MessageScene scene(config);
  scene.control([&](PacketWriter& w) { REQUIRE(w.ack_info(1, 0, 2 * 5)); });
  scene.settle();
  (void)scene.send(kFragments * MessageScene::kFragment, Level::delivered);
  scene.settle();
  if (granted) {
    scene.control([&](PacketWriter& w) { REQUIRE(w.grant(0, 1, 1, 0, kFragments)); });
    scene.settle();
  }
  std::size_t count = 0;
  for (const ScriptedPeer::Seen& seen : scene.peer.seen()) {
    count +=
        seen.type == proto::wire::PacketType::data || seen.type == proto::wire::PacketType::granted
            ? 1
            : 0;
  }
  return count;
}

TEST_CASE("allowance__bounds_what_goes_unasked_and_not_what_is_granted", "[W5]") {
  CHECK(under_way(kFragments, false) == 2);
  CHECK(under_way(2, false) == 2);
  CHECK(under_way(2, true) == kFragments);
}

}  // namespace
}  // namespace hawser::test
