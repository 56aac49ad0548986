// SPDX-License-Identifier: Apache-2.0
// The rules of docs/internals/protocol.md §3 to §5 for packets and blocks, as far as only an
// endpoint shows them. They say which check comes first, what elicits acknowledgements, and what
// the blocks of an acknowledgement contain.
#include <catch2/catch.hpp>

#include "test/protocol/exchange.hpp"
#include "test/protocol/message_scene.hpp"
#include "test/protocol/packets.hpp"
#include "test/support/seeded.hpp"

namespace hawser::test {
namespace {

using proto::microseconds;
using proto::milliseconds;
using proto::wire::MessageStatus;
using proto::wire::PacketType;
using proto::wire::PacketWriter;

// Writes the parts and the payload that a packet of this type must have.
void write_parts(PacketWriter& w, PacketType type, std::uint32_t message) {
  if (type == PacketType::data || type == PacketType::granted || type == PacketType::envelope) {
    w.part(proto::wire::FragmentPart{message, 0});
  }
  if (type == PacketType::data || type == PacketType::envelope) {
    w.part(proto::wire::EnvelopePart{});
  }
  if (type == PacketType::granted) w.part(proto::wire::ReceiveSlotPart{0, 0});
}
// NIC_STATE of NIC 16, which doesn't exist; the writer has no function for it.
void write_bad_block(PacketWriter& w) { w.part(proto::wire::FragmentPart{0x00100106, 1}); }
constexpr std::array kCarriers{PacketType::control, PacketType::data, PacketType::granted,
                               PacketType::probe, PacketType::envelope};

// An acknowledgement that the peer got: its blocks, packet by packet.
struct Ack {
  std::string blocks;  // in order: a for ACK_INFO, m for PATH_MARKS, p for PATH_ACK, r for REQUEST
  std::uint32_t turn = 0;
  std::uint16_t behind = 0;
  std::uint32_t allowance_kib = 0;
  struct Path {
    std::uint8_t slot = 0;
    std::uint32_t largest = 0;
    std::uint32_t residence_ns = 0;
    std::uint32_t ce_count = 0;
    std::vector<std::uint64_t> bitmap;
  };
  std::vector<Path> paths;
  struct Marks {
    std::uint8_t slot = 0;
    std::uint32_t largest = 0;
    std::uint64_t bits = 0;
  };
  std::vector<Marks> marks;
};
std::vector<Ack> acks(ScriptedPeer& peer) {
  std::vector<Ack> all;
  for (Datagram& datagram : peer.datagrams()) {
    proto::wire::PacketView view;
    REQUIRE(!proto::wire::parse(datagram.datagram(), datagram.queue, true, view));
    Ack ack;
    struct Reader {
      Ack& ack;
      void operator()(const proto::wire::AckInfoBlock& info) {
        ack.blocks += 'a';
        ack.turn = info.turn;
        ack.behind = info.behind;
        ack.allowance_kib = info.allowance_kib;
      }
      void operator()(const proto::wire::PathAckView& path) {
        ack.blocks += 'p';
        ack.paths.push_back({path.slot, path.largest, path.residence_ns, path.ce_count,
                             std::vector(path.bitmap.begin(), path.bitmap.end())});
      }
      void operator()(const proto::wire::PathMarksBlock& marks) {
        ack.blocks += 'm';
        ack.marks.push_back({marks.slot, marks.largest, marks.marks});
      }
      void operator()(const proto::wire::RequestView&) { ack.blocks += 'r'; }
    };
    view.blocks.visit(Reader{ack});
    if (!ack.blocks.empty()) all.push_back(ack);
  }
  return all;
}

void probe(ScriptedPeer& peer, std::uint8_t slot = 0, std::uint16_t path_back = 0) {
  peer.put(PacketType::probe, {}, [&](PacketWriter& w) {
    w.header().slot = slot;
    w.header().flags = proto::wire::kFlagAckNow;
    w.header().path_back = path_back;
  });
}
// The next acknowledgement, or the last one of several that are the same.
Ack next_ack(MessageScene& scene) {
  scene.settle();
  const std::vector<Ack> all = acks(scene.peer);
  REQUIRE_FALSE(all.empty());
  REQUIRE(all.back().paths.size() >= 1);
  return all.back();
}

TEST_CASE("wire_rules__what_needs_no_state_then_the_receiver_then_the_token", "[H3]") {
  MessageScene scene;
  const auto dropped = [&](bool bad_block, bool wrong_receiver, bool wrong_token) {
    std::array<std::uint64_t, kDropReasons> before = scene.world().stats(0).drops;
    scene.control([&](PacketWriter& w) {
      if (bad_block) write_bad_block(w);
      if (wrong_receiver) w.header().receiver ^= 0x00100000;
      if (wrong_token) w.header().token ^= 1;
    });
    scene.settle();
    std::optional<DropReason> reason;
    for (std::size_t i = 0; i < kDropReasons; ++i) {
      const std::uint64_t more = scene.world().stats(0).drops[i] - before[i];
      if (more == 0) continue;
      CHECK(more == 1);
      CHECK_FALSE(reason.has_value());
      reason = static_cast<DropReason>(i);
    }
    return reason;
  };
  CHECK(dropped(true, true, true) == DropReason::bad_field);
  CHECK(dropped(false, true, true) == DropReason::unknown_receiver);
  CHECK(dropped(false, false, true) == DropReason::wrong_token);
  CHECK(dropped(false, false, false) == std::nullopt);
}

// The packet has good blocks before the bad one, a fragment and a path number. None of them may
// count.
TEST_CASE("wire_rules__a_bad_packet_is_dropped_whole_and_counted_once", "[H4][B3]") {
  for (const PacketType type : kCarriers) {
    INFO(proto::wire::rule_of(type).name);
    MessageScene scene;
    (void)scene.send(10, Level::delivered);
    scene.settle();
    (void)acks(scene.peer);
    const std::uint64_t drops = scene.drops();
    const std::uint64_t bad = scene.drops(DropReason::bad_field);
    scene.peer.put(type, {}, [&](PacketWriter& w) {
      write_parts(w, type, 0);
      REQUIRE(w.status(0, MessageStatus::delivered));
      write_bad_block(w);
    });
    scene.settle();
    CHECK(scene.drops() == drops + 1);
    CHECK(scene.drops(DropReason::bad_field) == bad + 1);
    CHECK(scene.ended().empty());
    CHECK(scene.world().stats(0).unexpected_messages == 0);
    CHECK(acks(scene.peer).empty());
    // The packet's number is as new as before.
    scene.peer.path_number = 0;
    probe(scene.peer);
    CHECK(next_ack(scene).paths[0].largest == 0);
    CHECK(scene.drops() == drops + 1);
  }
}

TEST_CASE("wire_rules__blocks_mean_the_same_in_every_type_that_takes_them", "[B2][B4]") {
  for (const PacketType type : kCarriers) {
    INFO(proto::wire::rule_of(type).name);
    MessageScene scene;
    (void)scene.send(4 * MessageScene::kFragment, Level::delivered);
    scene.settle();
    REQUIRE(scene.heard(0) == "data 0, data 1");
    scene.acknowledge();
    scene.settle();
    const auto say = [&](auto&& write) {
      scene.peer.put(type, {}, [&](PacketWriter& w) {
        write_parts(w, type, 7);
        write(w);
      });
      scene.settle();
    };
    const std::uint64_t one = 1;
    say([&](PacketWriter& w) { REQUIRE(w.request(0, 0, std::span(&one, 1))); });
    CHECK(scene.heard(0) == "again 0");
    say([](PacketWriter& w) { REQUIRE(w.grant(0, 5, 6, 0, 3)); });
    CHECK(scene.heard(0) == "granted 2");
    say([](PacketWriter& w) { REQUIRE(w.nic_state(0, false, 1)); });
    CHECK(scene.world().stats(0).paths_down == 1);
    say([](PacketWriter& w) { REQUIRE(w.status(0, MessageStatus::delivered)); });
    CHECK(scene.ended() == "ok");
  }
}

TEST_CASE("wire_rules__sequenced_packets_elicit_acks_and_control_none", "[T2]") {
  for (const PacketType type : kCarriers) {
    INFO(proto::wire::rule_of(type).name);
    MessageScene scene;
    (void)acks(scene.peer);
    for (int i = 0; i < 10; ++i) {
      scene.peer.put(type, {}, [&](PacketWriter& w) {
        write_parts(w, type, 0);
        w.header().flags = proto::wire::kFlagAckNow;
      });
      scene.settle();
    }
    std::size_t paths = 0;
    for (const Ack& ack : acks(scene.peer)) paths += ack.paths.size();
    CHECK((paths > 0) == proto::wire::rule_of(type).sequenced);
  }
}

// Any of the unscheduled fragments of a message may come first and makes the message known.
TEST_CASE("wire_rules__any_of_a_messages_packets_may_be_the_first", "[T4]") {
  for (const int first : {0, 1, 2}) {
    INFO(first << " first");
    MessageScene scene;
    constexpr std::uint64_t kBytes = 2 * MessageScene::kFragment;
    if (first == 2) {
      scene.ask(0, kBytes);
    } else {
      scene.data(0, static_cast<std::uint32_t>(first), kBytes);
    }
    scene.settle();
    CHECK(scene.world().stats(0).unexpected_messages == 1);
    Envelope envelope;
    REQUIRE(scene.world().endpoint(0).probe(kAnyPeer, 0, 0, ~std::uint64_t{0}, envelope) ==
            Status::ok);
    CHECK(envelope.bytes == kBytes);
  }
}

TEST_CASE("wire_rules__a_hint_changes_no_outcome", "[T8]") {
  for_each_seed(8, [](proto::Random& random) {
    WorldConfig config;
    config.nics = 2;
    config.seed = random.next();
    config.faults = "delay=10us/10us,loss=0.03";
    World world(config);
    world.connect_all();
    Exchange exchange(world);
    for (std::uint64_t i = 0; i < 60; ++i) {
      // Arbitrary hints, with groups that are never whole and steps beyond the last.
      const auto some = [&](std::uint64_t most) { return random.below(most + 1); };
      const Hint hint{.group = static_cast<std::uint32_t>(some(3)),
                      .members = static_cast<std::uint16_t>(some(65535)),
                      .step = static_cast<std::uint16_t>(some(3)),
                      .steps = static_cast<std::uint16_t>(some(2)),
                      .collective = static_cast<Collective>(some(255)),
                      .priority = static_cast<std::uint8_t>(some(255))};
      const std::size_t bytes = some(100000);
      exchange.message(0, 1, i % 5, bytes, {.hint = hint});
    }
    REQUIRE(exchange.run(milliseconds(1000)));
    exchange.check();
    exchange.check_quiet();
  });
}

TEST_CASE("wire_rules__blocks_ride_on_data_that_leaves_them_room", "[T11]") {
  std::size_t largest = 0;
  std::size_t carriers = 0;
  WorldConfig config;
  config.hook = [&](std::uint32_t, std::uint32_t,
                    const engine::FaultPacket& packet) -> std::optional<engine::Fate> {
    if (packet.direction != engine::Direction::tx) return {};
    const proto::wire::PacketView view = view_of(packet);
    if (view.type != PacketType::data && view.type != PacketType::granted) return {};
    largest = std::max(largest, packet.header.size() + packet.payload.size());
    if (!view.blocks.empty()) ++carriers;
    // The space that all blocks of a packet may take at most.
    if (!view.blocks.empty()) CHECK(packet.payload.size() + proto::PacketBuffer::kBytes <= 4096);
    return {};
  };
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(5));
  Exchange exchange(world);
  std::uint64_t tag = 0;
  for (const std::size_t bytes : {10, 3000, 3072, 3073, 4095, 4096}) {
    for (int i = 0; i < 10; ++i, ++tag) {
      // A quick answer carries the status of the message that it answers.
      (void)exchange.receive(0, 1, tag, bytes);
      const std::size_t question = exchange.receive(1, 0, tag, bytes);
      (void)exchange.send(0, 1, tag, bytes);
      REQUIRE(exchange.run_until([&] { return exchange.received(question).completion.has_value(); },
                                 milliseconds(10)));
      (void)exchange.send(1, 0, tag, bytes);
      REQUIRE(exchange.run(milliseconds(10)));
    }
  }
  exchange.check_all_ok();
  CHECK(largest == 80 + 4096);
  CHECK(carriers > 10);
}

TEST_CASE("wire_rules__ack_info_precedes_the_path_acks_and_counts_turns", "[B5]") {
  MessageScene scene;
  std::uint32_t turn = 0;
  for (int i = 0; i < 5; ++i) {
    probe(scene.peer);
    const std::uint64_t before = scene.world().turns();
    const Ack ack = next_ack(scene);
    CHECK(ack.blocks == "ap");
    // The world takes no turn besides those of its only node.
    if (i > 0) CHECK(ack.turn - turn <= scene.world().turns() - before + 1);
    CHECK((i == 0 || ack.turn > turn));
    CHECK(ack.behind == 0);
    turn = ack.turn;
    scene.world().run_for(milliseconds(1));
  }
}

// Each turn takes only a few packets of a ring. An acknowledgement tells the age of the newest turn
// whose packets have all been taken. With an empty ring that is the current turn.
TEST_CASE("wire_rules__behind_is_as_far_as_the_rings_are_full", "[B6]") {
  WorldConfig config = MessageScene::defaults();
  config.tunables.poll_budget_packets = 8;
  config.tunables.late_wakeup_us = 10'000'000;  // no turn drains for being late
  config.tunables.ack_every_packets = 1;
  MessageScene scene(config);
  scene.world().pause(0, true);
  for (int i = 0; i < 200; ++i) probe(scene.peer);
  (void)acks(scene.peer);
  scene.world().pause(0, false);
  std::vector<Ack> told;
  for (int i = 0; i < 20; ++i) {
    scene.world().run_for(microseconds(1));
    for (const Ack& ack : acks(scene.peer)) told.push_back(ack);
  }
  REQUIRE(told.size() >= 4);
  // 64 packets a turn: three turns leave some behind.
  for (std::size_t i = 0; i < told.size(); ++i) {
    const std::uint32_t left = told[i].paths[0].largest;
    INFO("ack " << i << " of up to packet " << left);
    CHECK((told[i].behind == 0) == (left == 199));
    if (i > 0 && told[i].behind > 0) CHECK(told[i].behind > told[i - 1].behind);
  }
  CHECK(told.back().behind == 0);
}

// The allowance is the ring of a NIC, shared among the peers that were active lately.
TEST_CASE("wire_rules__the_allowance_is_shared_among_active_peers", "[B7]") {
  MessageScene scene;
  probe(scene.peer);
  const std::uint32_t alone = next_ack(scene).allowance_kib;
  ScriptedPeer other(scene.world(), 0, 100);
  other.say(PacketType::hello);
  scene.settle();
  REQUIRE(other.heard() == "WELCOME");
  for (int i = 0; i < 10; ++i) {
    probe(other);
    probe(scene.peer);
    scene.world().run_for(milliseconds(5));
  }
  probe(scene.peer);
  const std::uint32_t shared = next_ack(scene).allowance_kib;
  CHECK(alone / 2 <= shared);
  CHECK(shared <= alone / 2 + 1);
  // The peer gets all of it again when the other has been silent for two epochs of 20 ms.
  for (int i = 0; i < 10; ++i) {
    probe(scene.peer);
    scene.world().run_for(milliseconds(5));
  }
  probe(scene.peer);
  CHECK(next_ack(scene).allowance_kib == alone);
}

TEST_CASE("wire_rules__a_bit_for_each_path_number_from_the_largest_down", "[B8][B9]") {
  MessageScene scene;
  const auto arrive = [&](std::uint32_t number, std::uint16_t path_back) {
    scene.peer.path_number = number;
    probe(scene.peer, 0, path_back);
    const Ack ack = next_ack(scene);
    REQUIRE(ack.paths.size() == 1);
    return ack.paths[0];
  };
  (void)arrive(0, 0);
  (void)arrive(1, 1);
  Ack::Path path = arrive(4, 4);
  CHECK(path.largest == 4);
  REQUIRE(path.bitmap.size() == 1);
  CHECK((path.bitmap[0] & 0b11111) == 0b11001);  // there is no number below 0
  path = arrive(100, 100);
  CHECK(path.largest == 100);
  REQUIRE(path.bitmap.size() == 2);
  CHECK(path.bitmap[0] == 1);
  CHECK((path.bitmap[1] & 0x1fffffffff) == std::uint64_t{0b11001} << 32);  // 96 behind: number 4
  // An older packet fills its gap, and does not become the largest.
  path = arrive(3, 3);
  CHECK(path.largest == 100);
  CHECK((path.bitmap[1] & 0x1fffffffff) == std::uint64_t{0b11011} << 32);
  // The sender awaits nothing below 90, so the acknowledgement leaves those numbers out.
  path = arrive(101, 11);
  CHECK(path.largest == 101);
  REQUIRE(path.bitmap.size() == 1);
  CHECK(path.bitmap[0] == 0b11);
}

TEST_CASE("wire_rules__residence_is_from_the_pass_before_to_the_acks_departure", "[B10]") {
  MessageScene scene;
  probe(scene.peer);
  (void)next_ack(scene);
  for (const std::uint32_t away_us : {10, 300, 3000}) {
    INFO("away for " << away_us << " us");
    // Two probes: the second one may have lain in the ring since the turns that the first one
    // caused.
    probe(scene.peer);
    scene.world().run_for(microseconds(2));
    scene.world().pause(0, true);
    scene.world().run_for(microseconds(away_us - 5));
    probe(scene.peer);
    scene.world().run_for(microseconds(5));
    scene.world().pause(0, false);
    const std::uint32_t residence = next_ack(scene).paths[0].residence_ns;
    CHECK(residence >= away_us * 1000);
    CHECK(residence <= away_us * 1000 + 5000);
  }
}

TEST_CASE("wire_rules__marks_of_congestion_are_counted_by_path", "[B11]") {
  bool marks = false;
  WorldConfig config = MessageScene::defaults();
  config.arrived = [&](std::span<proto::RxPacket> packets) {
    for (proto::RxPacket& packet : packets) packet.congestion_experienced = marks;
  };
  MessageScene scene(config);
  std::uint32_t expected = 0;
  for (const bool marked : {false, true, true, false, true}) {
    marks = marked;
    probe(scene.peer);
    expected += marked ? 1 : 0;
    CHECK(next_ack(scene).paths[0].ce_count == expected);
  }
  // Another path has its own count, and a duplicate doesn't count.
  marks = true;
  probe(scene.peer, 1);
  const Ack ack = next_ack(scene);
  REQUIRE(ack.paths.size() == 1);
  CHECK(ack.paths[0].slot == 1);
  CHECK(ack.paths[0].ce_count == 1);
  scene.peer.path_number = 0;
  probe(scene.peer);
  CHECK(next_ack(scene).paths[0].ce_count == expected);
  CHECK(scene.world().stats(0).packets_marked == expected + 1);
}

TEST_CASE("wire_rules__which_packets_were_marked_is_told_once_in_front_of_their_ack", "[B18]") {
  std::uint64_t marks = 0;  // of the next packets, the lowest bit first
  WorldConfig config = MessageScene::defaults();
  config.tunables.ack_every_packets = 256;
  config.arrived = [&](std::span<proto::RxPacket> packets) {
    for (proto::RxPacket& packet : packets) {
      packet.congestion_experienced = (marks & 1) != 0;
      marks >>= 1;
    }
  };
  MessageScene scene(config);
  const auto told_of = [&](int packets, std::uint64_t marked) {
    marks = marked;
    for (int i = 0; i < packets; ++i) probe(scene.peer);
    return next_ack(scene);
  };
  CHECK(told_of(1, 0).blocks == "ap");
  Ack ack = told_of(3, 0b011);
  CHECK(ack.blocks == "amp");
  REQUIRE(ack.marks.size() == 1);
  CHECK(ack.marks[0].slot == ack.paths[0].slot);
  CHECK(ack.marks[0].largest == ack.paths[0].largest);
  CHECK(ack.marks[0].bits == 0b110);
  CHECK(told_of(1, 0).blocks == "ap");
  // A marked packet that arrives after later ones is reported. A mark 64 numbers back is forgotten.
  const std::uint32_t first = scene.peer.path_number;
  scene.peer.path_number = first + 1;
  (void)told_of(2, 0);
  scene.peer.path_number = first;
  ack = told_of(1, 1);
  REQUIRE(ack.marks.size() == 1);
  CHECK(ack.marks[0].bits == 0b100);
  scene.peer.path_number = first + 3;
  CHECK(told_of(65, 1).blocks == "ap");
}

TEST_CASE("wire_rules__a_request_comes_with_the_acks_of_all_paths", "[B15]") {
  MessageScene scene;
  for (std::uint8_t slot = 1; slot <= 3; ++slot) probe(scene.peer, slot);
  scene.settle();
  (void)acks(scene.peer);
  scene.data(0, 0, 2 * MessageScene::kFragment);
  scene.settle();
  (void)acks(scene.peer);
  scene.ask(0, 2 * MessageScene::kFragment);
  scene.settle();
  const std::vector<Ack> told = acks(scene.peer);
  REQUIRE(told.size() == 1);
  CHECK(told[0].blocks == "appppr");
}

TEST_CASE("wire_rules__an_older_nic_state_is_void", "[B17]") {
  MessageScene scene;
  const auto state_after = [&](bool up, std::uint32_t sequence) {
    scene.control([&](PacketWriter& w) { REQUIRE(w.nic_state(0, up, sequence)); });
    scene.settle();
    PeerStats stats;
    REQUIRE(scene.world().endpoint(0).peer_stats(scene.world().now(), scene.id, stats) ==
            Status::ok);
    REQUIRE(stats.paths.size() == 1);
    return stats.paths[0].state;
  };
  const auto probes = [&] { return scene.world().stats(0).path_probes_sent; };
  CHECK(state_after(true, 4) == PathState::up);
  CHECK(state_after(false, 4) == PathState::up);  // the same sequence
  CHECK(state_after(false, 3) == PathState::up);
  CHECK(state_after(false, 5) == PathState::down);
  const std::uint64_t before = probes();
  CHECK(state_after(true, 4) == PathState::down);
  CHECK(probes() == before);
  CHECK(state_after(true, 6) == PathState::down);  // probed, but the peer is mute
  CHECK(probes() > before);
}

}  // namespace
}  // namespace hawser::test
