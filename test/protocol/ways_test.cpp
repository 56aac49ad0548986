// SPDX-License-Identifier: Apache-2.0
// Ways, the routes between two NICs, whose MTU is smaller than that of the NICs at their ends.
#include <algorithm>
#include <catch2/catch.hpp>

#include "test/protocol/exchange.hpp"
#include "test/protocol/message_scene.hpp"
#include "test/protocol/one_sided_partner.hpp"
#include "test/protocol/one_sided_scene.hpp"
#include "test/protocol/packets.hpp"

namespace hawser::test {
namespace {

using proto::milliseconds;

constexpr std::uint32_t kNics = 4096 + 1024;  // what the NICs carry
constexpr std::uint32_t kWay = 1372;          // an MTU of 1400, without IP and UDP headers
constexpr std::uint32_t kFits = 1280;         // (1372 - 80) / 16 * 16
constexpr std::uint8_t kClass = 10;           // of fragments of 1280 bytes
constexpr std::uint32_t kInClass = std::uint32_t{kClass} << 28;

// The MTU of each node's ways, the longest packet on any of them, and the size classes of the data
// packets of each node.
struct Ways {
  std::array<std::uint32_t, 2> carries{kNics, kNics};
  std::size_t longest = 0;
  std::array<std::uint32_t, 2> classes{};  // a bit for each

  WorldConfig config(std::uint32_t nics = 1) {
    WorldConfig config;
    config.nics = nics;
    config.way_bytes = [this](std::uint32_t node, std::uint32_t nic, const proto::NicAddress&) {
      return nic == 0 ? carries[node] : kNics;
    };
    config.hook = [this](std::uint32_t node, std::uint32_t, const engine::FaultPacket& packet) {
      longest = std::max(longest, packet.header.size() + packet.payload.size());
      if (packet.direction == engine::Direction::tx) {
        const proto::wire::PacketView view = view_of(packet);
        if (view.fragment != nullptr && view.type != proto::wire::PacketType::read)
          classes[node] |= 1u << view.fragment->size_class();
      }
      return std::optional<engine::Fate>();
    };
    return config;
  }
  // The ways change, and the drivers say so.
  void become(World& world, std::array<std::uint32_t, 2> now,
              proto::Duration within = milliseconds(1)) {
    carries = now;
    world.tell_of_ways(0);
    world.tell_of_ways(1);
    world.run_for(within);
    longest = 0;
    classes = {};
  }
};

void exchange_both_ways(World& world) {
  Exchange exchange(world);
  exchange.ignore_what_was();
  exchange.both_ways(4, 100'000, 100'000);
  REQUIRE(exchange.run(milliseconds(500)));
  exchange.check_all_ok();
}

void check_sizes(World& world, std::uint32_t bytes) {
  CHECK(world.peer_stats(0, 1).fragment_bytes == bytes);
  CHECK(world.peer_stats(1, 0).fragment_bytes == bytes);
}

void check_session(World& world, std::uint32_t bytes) {
  CHECK(world.peer_stats(0, 1).session_bytes == bytes);
  CHECK(world.peer_stats(1, 0).session_bytes == bytes);
}

using Classes = std::array<std::uint32_t, 2>;
constexpr std::uint32_t kLong = 1;  // class 0
constexpr std::uint32_t kShort = 1u << kClass;

}  // namespace

TEST_CASE("ways__a_session_takes_what_the_least_of_them_carries", "[S32]") {
  for (const std::uint32_t nics : {1, 2}) {
    for (const std::uint32_t narrow : {0, 1}) {
      for (const bool both_call : {false, true}) {
        Ways ways;
        ways.carries[narrow] = kWay;
        World world(ways.config(nics));
        if (both_call) {
          world.connect_all();
        } else {
          (void)world.peer(0, 1);
        }
        world.run_for(milliseconds(5));
        exchange_both_ways(world);
        check_sizes(world, kFits);
        CHECK(ways.longest <= kWay);
        CHECK(world.allocations() == 0);
      }
    }
  }
}

// No driver says that the ways change.
TEST_CASE("ways__the_size_is_the_session_s_for_its_life", "[S32]") {
  Ways ways;
  World world(ways.config());
  world.connect_all();
  world.run_for(milliseconds(5));
  exchange_both_ways(world);
  check_sizes(world, 4096);
  ways.carries = {kWay, kWay};
  exchange_both_ways(world);  // too long packets go as IP fragments
  check_sizes(world, 4096);
  world.disconnect(0, 1);
  world.run_for(milliseconds(20));
  world.reconnect(0, 1);
  world.reconnect(1, 0);
  ways.longest = 0;
  exchange_both_ways(world);
  check_sizes(world, kFits);
  CHECK(ways.longest <= kWay);
  ways.carries = {kNics, kNics};  // the ways carry full packets again
  world.disconnect(1, 0);
  world.run_for(milliseconds(20));
  world.reconnect(0, 1);
  world.reconnect(1, 0);
  exchange_both_ways(world);
  check_sizes(world, 4096);
}

TEST_CASE("ways__who_starts_again_finds_them_as_they_are_now", "[S32]") {
  Ways ways;
  World world(ways.config());
  world.connect_all();
  world.run_for(milliseconds(5));
  check_sizes(world, 4096);
  ways.carries[0] = kWay;
  world.crash(1, true);
  world.reconnect(0, 1);
  world.reconnect(1, 0);
  world.run_for(milliseconds(50));
  exchange_both_ways(world);
  check_sizes(world, kFits);
}

TEST_CASE("ways__a_peer_at_rest_keeps_its_size", "[S32]") {
  Ways ways;
  ways.carries = {kWay, kNics};
  WorldConfig config = ways.config();
  config.tunables.rest_after_ms = 10;
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(200));
  REQUIRE(world.peer_stats(0, 1).at_rest);
  check_sizes(world, kFits);
  ways.carries = {kNics, kNics};
  world.apply(0, 0, "revive:moved");  // wakes the peer: an announcement repeats the size
  exchange_both_ways(world);
  check_sizes(world, kFits);
}

TEST_CASE("ways__new_messages_follow_them", "[S42]") {
  for (const std::uint32_t nics : {1, 2}) {
    Ways ways;
    World world(ways.config(nics));
    world.connect_all();
    world.run_for(milliseconds(5));
    exchange_both_ways(world);
    check_sizes(world, 4096);
    ways.become(world, {kWay, kWay});
    exchange_both_ways(world);
    check_sizes(world, kFits);
    check_session(world, 4096);
    CHECK(ways.longest <= kWay);
    CHECK(ways.classes == Classes{kShort, kShort});
    ways.become(world, {kNics + 1000, kNics + 1000});  // no more than the session agreed on
    exchange_both_ways(world);
    check_sizes(world, 4096);
    CHECK(ways.longest == 4096 + 80);
    CHECK(ways.classes == Classes{kLong, kLong});
    CHECK(world.allocations() == 0);
  }
}

TEST_CASE("ways__each_direction_follows_its_own", "[S42]") {
  Ways ways;
  World world(ways.config());
  world.connect_all();
  world.run_for(milliseconds(5));
  ways.become(world, {kWay, kNics});
  exchange_both_ways(world);
  CHECK(world.peer_stats(0, 1).fragment_bytes == kFits);
  CHECK(world.peer_stats(1, 0).fragment_bytes == 4096);
  check_session(world, 4096);
  CHECK(ways.classes == Classes{kShort, kLong});
}

TEST_CASE("ways__a_message_under_way_keeps_its_size", "[S42][S46]") {
  Ways ways;
  WorldConfig config = ways.config();
  config.faults = "loss=0.05,delay=20us";
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(5));
  Exchange exchange(world);
  exchange.ignore_what_was();
  exchange.message(0, 1, 1, 8'000'000);
  REQUIRE(world.run_until([&] { return ways.longest > 4096; }, milliseconds(100)));
  ways.become(world, {kWay, kNics}, proto::microseconds(50));
  REQUIRE_FALSE(exchange.sent(0).completion);
  exchange.message(0, 1, 2, 2'000'000);
  REQUIRE(exchange.run(milliseconds(5000)));
  exchange.check_all_ok();
  CHECK(ways.classes[0] == (kLong | kShort));  // the first one went on as it began
  CHECK(world.stats(0).fragments_retransmitted > 0);
}

TEST_CASE("ways__small_messages_have_the_session_s_class", "[S42]") {
  Ways ways;
  World world(ways.config());
  world.connect_all();
  world.run_for(milliseconds(5));
  ways.become(world, {kWay, kWay});
  Exchange exchange(world);
  exchange.ignore_what_was();
  exchange.both_ways(20, kFits, 3);
  REQUIRE(exchange.run(milliseconds(500)));
  exchange.check_all_ok();
  CHECK(ways.classes == Classes{kLong, kLong});
  CHECK(ways.longest <= kWay);
}

TEST_CASE("ways__one_sided_operations_follow_them", "[S42]") {
  Ways ways;
  OneSidedScene at(ways.config(), 1 << 18);
  ways.become(at.world, {kWay, kWay});
  for (const std::size_t bytes :
       {std::size_t{100}, std::size_t{kFits}, std::size_t{kFits} + 1, std::size_t{200'000}}) {
    INFO(bytes << " bytes");
    const std::string sent = pattern(bytes, bytes);
    auto write = at.write_to(0, 1, 64, sent);
    write.signal = Signal{.key = at.keys[1], .word = {AtomicOperation::add, 8, 1, 0}};
    CHECK(at.run(0, write).status == Status::ok);
    CHECK(at.text(1, 64, bytes) == sent);
    std::string got(bytes, 'x');
    CHECK(at.run(0, at.read_from(0, 1, 64, got)).status == Status::ok);
    CHECK(got == sent);
  }
  CHECK(at.word(1, 0) == 4);
  CHECK(ways.longest <= kWay);
  CHECK(ways.classes == Classes{kLong | kShort, kLong | kShort});  // writes, and replies
  ways.become(at.world, {kNics, kNics});
  const std::string sent = pattern(1, 200'000);
  CHECK(at.run(0, at.write_to(0, 1, 64, sent)).status == Status::ok);
  CHECK(ways.classes[0] == kLong);
}

TEST_CASE("ways__messages_that_wait_for_the_session_fit_them_too", "[S43]") {
  Ways ways;
  World world(ways.config());
  world.connect_all();
  world.run_for(milliseconds(5));
  world.crash(1, true);
  world.reconnect(0, 1);
  Exchange exchange(world);
  exchange.ignore_what_was();
  ways.carries = {kWay, kNics};  // between the token and the session
  world.tell_of_ways(0);
  world.reconnect(1, 0);
  world.run_for(milliseconds(50));
  exchange.message(0, 1, 1, 100'000);
  ways.longest = 0;
  REQUIRE(exchange.run(milliseconds(500)));
  CHECK(ways.longest <= kWay);
}

// The kernel forgets what it learned of a way without a word.
TEST_CASE("ways__a_narrow_one_is_asked_about_again", "[S43]") {
  Ways ways;
  WorldConfig config = ways.config();
  config.tunables.rest_after_ms = 60'000;  // a peer that wakes asks in any case
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(5));
  ways.become(world, {kWay, kNics});
  exchange_both_ways(world);
  CHECK(world.peer_stats(0, 1).fragment_bytes == kFits);
  ways.carries = {kNics, kNics};
  exchange_both_ways(world);
  CHECK(world.peer_stats(0, 1).fragment_bytes == kFits);
  world.run_for(milliseconds(31'000));
  exchange_both_ways(world);
  CHECK(world.peer_stats(0, 1).fragment_bytes == 4096);
}

TEST_CASE("ways__a_peer_at_rest_follows_them_when_it_wakes", "[S43]") {
  Ways ways;
  WorldConfig config = ways.config();
  config.tunables.rest_after_ms = 10;
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(200));
  REQUIRE(world.peer_stats(0, 1).at_rest);
  ways.become(world, {kWay, kWay});
  exchange_both_ways(world);
  check_sizes(world, kFits);
  check_session(world, 4096);
  CHECK(ways.longest <= kWay);
  world.run_for(milliseconds(200));
  REQUIRE(world.peer_stats(0, 1).at_rest);
  ways.become(world, {kWay, kWay});
  exchange_both_ways(world);
  CHECK(ways.longest <= kWay);
}

TEST_CASE("ways__a_peer_without_size_classes_gets_the_session_s", "[S44]") {
  for (const bool knows : {false, true}) {
    WorldConfig config = MessageScene::defaults();
    std::uint32_t carries = kNics;
    config.way_bytes = [&](std::uint32_t, std::uint32_t, const proto::NicAddress&) {
      return carries;
    };
    MessageScene at(config, knows ? proto::wire::kFeatureSizeClasses : std::uint8_t{0});
    carries = kWay;
    at.world().tell_of_ways(0);
    at.world().run_for(milliseconds(1));
    (void)at.send(2 * 4096, Level::accepted);
    at.settle();
    const std::string expected = knows ? "data " + std::to_string(kInClass) : "data 0";
    CHECK(at.heard(0).find(expected) == 0);
  }
}

// A peer sends packets that mix classes, or that are of a class that its session hasn't.
TEST_CASE("ways__damaged_classes_are_refused", "[S45]") {
  using proto::wire::FragmentPart;
  using proto::wire::PacketWriter;
  MessageScene at(MessageScene::defaults(), proto::wire::kFeatureSizeClasses);
  const std::uint64_t bad = at.drops(DropReason::bad_field);
  const auto data = [&](std::uint32_t message, std::uint32_t field, std::size_t bytes) {
    const std::vector<std::byte> payload(bytes, std::byte{1});
    at.peer.put(proto::wire::PacketType::data, payload, [&](PacketWriter& w) {
      w.part(FragmentPart{message, field});
      proto::wire::EnvelopePart envelope{};
      envelope.set_length(2 * kFits);
      w.part(envelope);
    });
    at.settle();
  };
  (void)at.receive(at.id, 0, 2 * kFits);
  data(0, std::uint32_t{5} << 28, 2 * kFits);  // 4096: that is class 0
  data(0, std::uint32_t{1} << 28, 2 * kFits);  // longer than the session's
  CHECK(at.drops(DropReason::bad_field) == bad + 2);
  data(0, kInClass, kFits);
  CHECK(at.drops(DropReason::bad_field) == bad + 2);
  data(0, 1, kFits);  // the other one, in another class
  data(0, 0, 2 * kFits);
  data(0, (std::uint32_t{kClass} + 1) << 28 | 1, kFits);
  data(0, kInClass | 2, 0);           // there are two
  data(0, kInClass | 1, kFits - 16);  // another length
  at.ask(0, 2 * kFits);               // an envelope of class 0
  at.settle();
  CHECK(at.drops(DropReason::bad_field) == bad + 8);
  CHECK(at.ended().empty());
  data(0, kInClass | 1, kFits);
  CHECK(at.ended() == "ok");
  CHECK(at.bytes() == std::string(2 * kFits, '\1'));
}

TEST_CASE("ways__damaged_classes_of_writes_are_refused", "[S45]") {
  using proto::wire::FragmentPart;
  using proto::wire::PacketWriter;
  OneSidedPartner at(MessageScene::defaults(),
                     proto::wire::kFeatureOneSided | proto::wire::kFeatureSizeClasses);
  const std::uint64_t bad = at.drops(DropReason::bad_field);
  const auto write = [&](std::uint32_t field, char fill) {
    const std::vector<std::byte> payload(kFits, static_cast<std::byte>(fill));
    at.scene.peer.put(proto::wire::PacketType::write, payload, [&](PacketWriter& w) {
      w.part(FragmentPart{0, field});
      w.part(at.target(0, 2 * kFits));
    });
    at.scene.settle();
  };
  write(std::uint32_t{1} << 28, 'x');
  write(0, 'x');  // class 0 has it in one fragment
  CHECK(at.drops(DropReason::bad_field) == bad + 2);
  write(kInClass, 'a');
  write(1, 'x');
  write((std::uint32_t{kClass} + 1) << 28 | 1, 'x');
  CHECK(at.drops(DropReason::bad_field) == bad + 4);
  CHECK(at.text(0, 2 * kFits) == std::string(kFits, 'a') + std::string(kFits, '\0'));
  write(kInClass | 1, 'b');
  CHECK(at.text(0, 2 * kFits) == std::string(kFits, 'a') + std::string(kFits, 'b'));
}

TEST_CASE("ways__none_is_too_narrow_for_a_session", "[S32]") {
  Ways ways;
  ways.carries = {60, kNics};
  World world(ways.config());
  world.connect_all();
  exchange_both_ways(world);
  check_sizes(world, 256);
}

}  // namespace hawser::test
