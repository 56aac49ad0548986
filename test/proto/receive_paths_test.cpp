// SPDX-License-Identifier: Apache-2.0
#include "proto/path/receive_paths.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "proto/base/sequence.hpp"
#include "proto/service/reporter.hpp"
#include "test/proto/sending.hpp"

namespace hawser::proto {
namespace {

// Room for two paths on which a peer sends.
struct Receiving : Sending {
  Slab<OutgoingMessage> outgoing{1};
  Reporter reporter{turn, peers, outgoing};
  ReceivePaths paths{turn, reporter, 2};

  Receiving() { peer.paths.receiving.fill(kNoIndex); }

  ReceivePaths::Arrival arrive(std::uint64_t number, std::uint8_t slot = 0,
                               std::uint8_t generation = 1, bool marked = false,
                               std::uint16_t back = 0) {
    wire::CommonHeader header{};
    header.slot = static_cast<std::uint8_t>(1 << 4 | slot);
    header.generation = generation;
    header.path_number = to_wire(number);
    header.path_back = back;
    wire::PacketView packet;
    packet.header = &header;
    return paths.note(peer, 1, packet, marked);
  }
  [[nodiscard]] std::uint64_t dropped(DropReason reason) const {
    return turn.counters.drops[static_cast<std::size_t>(reason)];
  }
  [[nodiscard]] std::uint32_t known() {
    std::uint32_t count = 0;
    paths.for_each(peer.paths, [&](const ReceivePath&) { ++count; });
    return count;
  }
};

}  // namespace

TEST_CASE("receive paths: a number counts once") {
  Receiving at;
  const auto first = at.arrive(5);
  REQUIRE(first.path != nullptr);
  CHECK(first.is_new);
  const auto again = at.arrive(5);
  CHECK(again.path == first.path);
  CHECK_FALSE(again.is_new);
  CHECK(at.dropped(DropReason::old_path_number) == 1);
  CHECK(at.turn.counters.data_packets_received == 1);
}

TEST_CASE("receive paths: a packet that another one overtook, and one with a gap before it") {
  Receiving at;
  CHECK_FALSE(at.arrive(0).overtaken);
  CHECK_FALSE(at.arrive(1).overtaken);
  CHECK(at.arrive(3).overtaken);        // 2 is missing
  CHECK_FALSE(at.arrive(4).overtaken);  // no new gap
  CHECK(at.arrive(2).overtaken);        // 3 came before
}

TEST_CASE("receive paths: a newer generation begins anew, and an older one is dropped") {
  Receiving at;
  CHECK(at.arrive(7, 3, 1).is_new);
  CHECK(at.arrive(7, 3, 2).is_new);
  CHECK(at.arrive(8, 3, 1).path == nullptr);
  CHECK(at.dropped(DropReason::stale_path) == 1);
  CHECK(at.known() == 1);
}

// Generations are numbers of one byte: 0 follows 255.
TEST_CASE("receive paths: generations wrap") {
  Receiving at;
  REQUIRE(at.arrive(7, 3, 254).is_new);
  CHECK(at.arrive(7, 3, 255).is_new);
  CHECK(at.arrive(7, 3, 0).is_new);
  CHECK_FALSE(at.arrive(7, 3, 0).is_new);
  CHECK(at.arrive(8, 3, 255).path == nullptr);
  CHECK(at.arrive(8, 3, 254).path == nullptr);
  CHECK(at.dropped(DropReason::stale_path) == 2);
  CHECK(at.arrive(7, 3, 1).is_new);
}

// While a path is idle, its sender may bind the slot more than 128 times. The next generation would
// look older than the one that was known.
TEST_CASE("receive paths: a forgotten path takes any generation") {
  Receiving at;
  const bool all = GENERATE(true, false);
  CHECK(at.arrive(0, 2, 9).is_new);
  if (all) {
    at.paths.forget_all(at.peer.paths);
  } else {
    at.paths.forget_idle(at.peer.paths, at.turn.now() + milliseconds(1));
  }
  CHECK(at.known() == 0);
  CHECK(at.arrive(1, 2, 9 + 200).is_new);
  CHECK(at.arrive(2, 2, 9 + 199).path == nullptr);
}

TEST_CASE("receive paths: idle ones are forgotten, others are not") {
  Receiving at;
  at.arrive(0, 0).path->ack_due = true;
  at.arrive(0, 1);
  at.paths.forget_idle(at.peer.paths, at.turn.now() + milliseconds(1));
  CHECK(at.known() == 1);
  CHECK(at.peer.paths.receiving[0] != kNoIndex);
}

TEST_CASE("receive paths: without room a packet of another path is dropped") {
  Receiving at;
  CHECK(at.arrive(0, 0).is_new);
  CHECK(at.arrive(0, 1).is_new);
  CHECK(at.arrive(0, 2).path == nullptr);
  CHECK(at.dropped(DropReason::limit) == 1);
  CHECK(at.arrive(1, 0).is_new);
}

TEST_CASE("receive paths: marks keep their numbers as later packets come") {
  Receiving at;
  ReceivePath* const path = at.arrive(10, 0, 1, true).path;
  CHECK(path->marks == 1);
  at.arrive(12);
  CHECK(path->marks == 4);
  at.arrive(11, 0, 1, true);
  CHECK(path->marks == 6);
  CHECK(path->ce_count == 2);
  at.arrive(12 + 64);
  CHECK(path->marks == 0);
}

TEST_CASE("receive paths: a session that goes on after a rest begins near its first packet") {
  Receiving at;
  at.peer.slots.first_remote_number = 100;
  const ReceivePaths::Arrival arrival =
      at.arrive(100 + 3 * PathWindow::kBits, 0, 1, false, 2 * PathWindow::kBits);
  CHECK(arrival.is_new);
  CHECK(arrival.path->reach == 100 + 2 * PathWindow::kBits);
  CHECK(arrival.path->window.largest() == 100 + 3 * PathWindow::kBits);
}

}  // namespace hawser::proto
