// SPDX-License-Identifier: Apache-2.0
// The limits of one-sided operations: what finds no place is dropped unexecuted, and repeated.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "test/protocol/one_sided_partner.hpp"
#include "test/protocol/one_sided_scene.hpp"
#include "test/protocol/packets.hpp"

namespace hawser::test {
namespace {

using proto::milliseconds;
using proto::wire::MessageStatus;
using proto::wire::PacketType;

// To one peer: as many as it leaves for all others.
constexpr std::uint32_t kMostReplies = 512;
constexpr std::uint32_t kMostLongWrites = 512;
constexpr std::uint64_t kLong = OneSidedPartner::kFragment + 1;  // bytes: two fragments

TEST_CASE("one_sided_limits__a_full_ring_of_notices_stops_writes_and_loses_none", "[O17][O28]") {
  constexpr std::uint64_t kPlaces = 32;
  constexpr std::uint64_t kWrites = 3 * kPlaces;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    INFO("seed " << seed);
    WorldConfig config;
    config.seed = seed;
    config.faults = "delay=5us,loss=0.02,duplicate=0.1,reorder=0.1";
    config.tune = [](std::uint32_t node, proto::AllTunables& tunables) {
      if (node == 1) tunables.max_operations = kPlaces - 12;  // rounded up
    };
    OneSidedScene at(config, 1 << 20);
    const std::string sent = pattern(seed, 9000);  // every third write has several fragments
    std::vector<OperationId> posted;
    for (std::uint64_t i = 0; i < kWrites; ++i) {
      auto write = at.write_to(0, 1, 9000 * i, sent);
      if (i % 3 != 0) write.bytes = 100;
      write.notifies = true;
      write.immediate = i;
      posted.push_back(at.post(0, write));
    }
    const OperationId silent = at.post(0, at.write_to(0, 1, 9000 * kWrites, sent));
    const auto ended = [&] { return at.world.completions(0).size(); };
    at.world.run_for(milliseconds(300));
    CHECK(ended() == kPlaces + 1);
    CHECK(at.world.completion(0, silent) != nullptr);  // it needs no place
    CHECK(at.world.drops(1, DropReason::no_room) > 0);
    std::set<std::uint64_t> noticed;
    while (noticed.size() < kWrites) {
      std::size_t polled = 0;
      Completion notices[5];
      REQUIRE(at.world.run_until(
          [&] {
            polled = at.world.endpoint(1).poll_notices(notices);
            return polled > 0;
          },
          milliseconds(5000)));
      for (const Completion& notice : std::span(notices, polled)) {
        CHECK(noticed.insert(notice.immediate).second);
        CHECK(notice.bytes == (notice.immediate % 3 == 0 ? 9000 : 100));
        CHECK(at.text(1, notice.tag, notice.bytes) == sent.substr(0, notice.bytes));
      }
    }
    for (const OperationId operation : posted) CHECK(at.wait(0, operation).status == Status::ok);
    Completion notice;
    CHECK(at.world.endpoint(1).poll_notices({&notice, 1}) == 0);
  }
}

// Loses all replies as long as `loses`.
struct NoReplies {
  bool loses = true;
  std::optional<engine::Fate> operator()(std::uint32_t node, std::uint32_t,
                                         const engine::FaultPacket& packet) const {
    if (packet.direction != engine::Direction::tx || node != 1 || !loses) return {};
    if (view_of(packet).type != PacketType::write) return {};
    return engine::Fate{.drop = true};
  }
};

TEST_CASE("one_sided_limits__reads_beyond_the_places_for_replies_all_complete", "[O17][O23]") {
  constexpr std::size_t kReads = kMostReplies + 400;
  NoReplies hook;
  WorldConfig config;
  config.nics = 2;
  config.hook = std::ref(hook);
  OneSidedScene at(config, 8 * kReads);
  for (std::size_t i = 0; i < kReads; ++i) at.word(1, i) = 1000 + i;
  std::vector<std::string> into(kReads, std::string(8, 'x'));
  std::vector<OperationId> posted;
  for (std::size_t i = 0; i < kReads; ++i)
    posted.push_back(at.post(0, at.read_from(0, 1, 8 * i, into[i])));
  at.world.run_for(milliseconds(20));
  CHECK(at.world.drops(1, DropReason::no_descriptor) >= kReads - kMostReplies);
  CHECK(at.world.completions(0).empty());
  CHECK(at.world.peer_stats(1, 0).sends_pending == kMostReplies);
  hook.loses = false;
  for (std::size_t i = 0; i < kReads; ++i) {
    REQUIRE(at.wait(0, posted[i]).status == Status::ok);
    std::uint64_t word = 0;
    std::memcpy(&word, into[i].data(), 8);
    CHECK(word == 1000 + i);
  }
  at.world.run_for(milliseconds(100));
  CHECK(at.world.peer_stats(1, 0).sends_pending == 0);
}

TEST_CASE("one_sided_limits__fetching_atomics_beyond_them_are_each_executed_once", "[O17][O23]") {
  constexpr std::size_t kAdds = kMostReplies + 400;
  NoReplies hook;
  WorldConfig config;
  config.nics = 2;
  config.hook = std::ref(hook);
  OneSidedScene at(config);
  std::vector<OperationId> posted;
  for (std::size_t i = 0; i < kAdds; ++i) posted.push_back(at.post(0, at.add_at(0, 1, 8, 1)));
  at.world.run_for(milliseconds(20));
  CHECK(at.word(1, 1) == kMostReplies);  // the others were dropped unexecuted
  auto silent = at.add_at(0, 1, 16, 1);
  silent.fetches = false;
  CHECK(at.run(0, silent).status == Status::ok);  // it needs no place
  hook.loses = false;
  std::set<std::uint64_t> fetched;
  for (const OperationId operation : posted) {
    REQUIRE(at.wait(0, operation).status == Status::ok);
    CHECK(fetched.insert(at.world.completion(0, operation)->immediate).second);
  }
  CHECK(at.word(1, 1) == kAdds);
  CHECK(*fetched.rbegin() == kAdds - 1);
}

TEST_CASE("one_sided_limits__a_peer_that_answers_nothing_stops_no_other", "[O23]") {
  WorldConfig config;
  config.nodes = 3;
  OneSidedScene at(config);
  std::vector<std::string> into(2 * kMostReplies, std::string(8, 'x'));
  for (std::string& buffer : into) (void)at.post(0, at.read_from(0, 1, 0, buffer));
  REQUIRE(at.world.run_until([&] { return at.world.drops(1, DropReason::no_descriptor) > 0; },
                             milliseconds(10)));
  at.world.crash(0, false);
  std::string got(8, 'x');
  const OperationId read = at.post(2, at.read_from(2, 1, 0, got));
  std::string message(100, 'm');
  std::string received(100, '-');
  const OperationId receive = at.world.receive(1, at.world.peer(1, 2), 5, received);
  (void)at.world.send(2, 1, 5, message);
  REQUIRE(at.world.run_until([&] { return at.world.completion(1, receive) != nullptr; },
                             milliseconds(5)));
  REQUIRE(
      at.world.run_until([&] { return at.world.completion(2, read) != nullptr; }, milliseconds(5)));
  CHECK(received == message);
}

TEST_CASE("one_sided_limits__a_flood_of_reads_holds_no_more_than_the_limit", "[O17][O23]") {
  constexpr std::uint32_t kReads = kMostReplies + 200;
  WorldConfig config;
  config.nodes = 1;
  OneSidedPartner at(config);
  for (std::uint32_t i = 0; i < kReads; ++i) {
    at.read(i, at.target(0, 8, 0, i));
    if (i % 32 == 31) at.listen();
  }
  at.listen();
  CHECK(at.drops(DropReason::no_descriptor) == kReads - kMostReplies);
  PeerStats stats;
  REQUIRE(at.endpoint().peer_stats(at.world().now(), at.scene.id, stats) == Status::ok);
  CHECK(stats.sends_pending == kMostReplies);
  CHECK(at.statuses.size() == kMostReplies);
  CHECK(at.statuses.count(kMostReplies) == 0);
  // A reply that ends leaves its place to another.
  at.scene.status(0, MessageStatus::delivered);
  at.scene.settle();
  at.read(kReads - 1, at.target(0, 8, 0, 0));
  at.listen();
  CHECK(at.statuses[kReads - 1] == MessageStatus::delivered);
}

TEST_CASE("one_sided_limits__long_writes_have_descriptors_of_their_own", "[O16][O17]") {
  WorldConfig config;
  config.nodes = 1;
  config.tunables.max_receive_messages = 16;
  OneSidedPartner at(config);
  constexpr std::uint32_t kWrites = kMostLongWrites + 10;
  for (std::uint32_t i = 0; i < 16; ++i) at.scene.data(i, 0, 100);  // takes those of messages
  for (std::uint32_t i = 0; i < kWrites; ++i) {
    at.write(16 + i, 1, at.target(0, kLong), 'w');
    if (i % 32 == 31) at.listen();
  }
  at.listen();
  CHECK(at.drops(DropReason::no_descriptor) == kWrites - kMostLongWrites);
  const std::uint32_t next = 16 + kWrites;
  at.write(next, 0, at.target(0, 100), 's');  // a short one takes none
  at.listen();
  CHECK(at.statuses[next] == MessageStatus::delivered);
  // A long reply takes one as well.
  std::string into(kLong, '-');
  ReadRequest read{.peer = at.scene.id,
                   .key = OneSidedPartner::key_of_peer(),
                   .data = into.data(),
                   .bytes = kLong};
  REQUIRE(at.world().post(0, read) == Status::ok);
  at.listen();
  REQUIRE_FALSE(at.sent.empty());
  at.write(next + 1, 0, at.reply(at.sent.back().target.note, kLong), 'r');
  at.listen();
  CHECK(at.drops(DropReason::no_descriptor) == kWrites - kMostLongWrites + 1);
  CHECK(into == std::string(kLong, '-'));
  at.write(16, 0, at.target(0, kLong), 'w');
  at.listen();
  CHECK(at.statuses[16] == MessageStatus::delivered);
  at.write(next - 1, 0, at.target(0, kLong), 'w');
  at.write(next - 1, 1, at.target(0, kLong), 'w');
  at.listen();
  CHECK(at.statuses[next - 1] == MessageStatus::delivered);
}

TEST_CASE("one_sided_limits__numbers_far_apart_leave_places_to_others", "[O17]") {
  constexpr std::uint32_t kAdds = 200;
  OneSidedPartner at;
  for (std::uint32_t i = 1; i <= kAdds; ++i) {
    at.add(64 * i, at.target(0, 8), 1);
    if (i % 32 == 0) at.listen();
  }
  at.listen();
  CHECK(at.memory[0] > 0);
  CHECK(at.memory[0] < kAdds);
  CHECK(at.statuses.size() == at.memory[0]);
  CHECK(at.drops(DropReason::no_descriptor) == kAdds - at.memory[0]);
  const std::uint64_t before = at.memory[0];
  at.add(0, at.target(0, 8), 1);  // the lowest number always has its place
  at.listen();
  CHECK(at.memory[0] == before + 1);
}

TEST_CASE("one_sided_limits__channels_and_held_operations", "[O34]") {
  OneSidedScene at({});
  const std::string sent = pattern(1, 100);
  std::vector<OperationId> posted;
  const auto write_on = [&](std::uint16_t channel, bool strong) {
    auto write = at.write_to(0, 1, 0, sent);
    write.channel = channel;
    write.strong = strong;
    OperationId operation{};
    const Status status = at.world.post(0, write, operation);
    if (status == Status::ok) posted.push_back(operation);
    return status;
  };
  for (std::uint16_t channel = 0; channel < 16; ++channel)
    REQUIRE(write_on(channel, false) == Status::ok);
  CHECK(write_on(16, false) == Status::again);
  CHECK(write_on(15, false) == Status::ok);
  for (int i = 0; i < 64; ++i) REQUIRE(write_on(3, true) == Status::ok);
  CHECK(write_on(3, true) == Status::again);
  CHECK(write_on(3, false) == Status::ok);
  CHECK(write_on(4, true) == Status::ok);
  for (const OperationId operation : posted) CHECK(at.wait(0, operation).status == Status::ok);
  CHECK(write_on(16, true) == Status::ok);
}

// The operation is one to its caller, however many messages it takes.
TEST_CASE("one_sided_limits__a_signal_that_does_not_fit_follows_its_write", "[O48]") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    INFO("seed " << seed);
    OneSidedScene at(bad_fabric(seed), 1 << 18);
    const std::uint64_t fragment = at.world.peer_stats(0, 1).fragment_bytes;
    std::uint64_t count = 0;
    for (const std::uint64_t bytes : {fragment - 41, fragment - 40, fragment - 39, fragment,
                                      fragment + 1, std::uint64_t{100'000}}) {
      INFO(bytes << " bytes");
      const std::string sent = pattern(bytes, bytes);
      auto write = at.write_to(0, 1, 64, sent);
      write.signal = Signal{.key = at.keys[1], .word = {AtomicOperation::add, 8, 1, 0}};
      auto behind = at.add_at(0, 1, 0, 0);
      behind.strong = true;
      const OperationId operation = at.post(0, write);
      const OperationId second = at.post(0, behind);
      REQUIRE(at.world.run_until([&] { return at.word(1, 0) == count + 1; }, milliseconds(1000)));
      CHECK(at.text(1, 64, bytes) == sent);
      const Completion& done = at.wait(0, operation);
      CHECK(done.status == Status::ok);
      CHECK(done.kind == OperationKind::write);
      CHECK(done.bytes == bytes);
      CHECK(done.executed);
      CHECK(at.wait(0, second).immediate == ++count);
    }
  }
}

TEST_CASE("one_sided_limits__a_signal_that_is_refused_behind_its_write", "[O48]") {
  OneSidedScene at({}, 1 << 18);
  for (const bool is_long : {false, true}) {
    const std::string sent = pattern(7, is_long ? 100'000 : 100);
    auto write = at.write_to(0, 1, 64, sent);
    write.signal = Signal{.key = at.keys[1], .word = {AtomicOperation::add, 8, 1, 0}};
    write.signal->key.secret ^= 1;
    const Completion& done = at.run(0, write);
    CHECK(done.status == Status::access_denied);
    CHECK_FALSE(done.executed);
    CHECK(done.outcome_unknown == is_long);
    CHECK((at.text(1, 64, sent.size()) == sent) == is_long);
    CHECK(at.wait(0, at.flush(0, 1, 0)).status == Status::predecessor_failed);
  }
  CHECK(at.word(1, 0) == 0);
  CHECK(at.wait(0, at.flush(0, 1, 0)).status == Status::ok);
}

// Neither the signal nor its write leaves anything behind.
TEST_CASE("one_sided_limits__a_session_that_ends_before_a_signal_that_follows", "[O48][O39]") {
  for (const std::int64_t after_us : {0, 20, 60, 100, 140, 200, 300}) {
    INFO("after " << after_us << " us");
    OneSidedScene at({}, 1 << 18);
    const std::string sent = pattern(1, 100'000);
    auto write = at.write_to(0, 1, 64, sent);
    write.signal = Signal{.key = at.keys[1], .word = {AtomicOperation::add, 8, 1, 0}};
    const OperationId operation = at.post(0, write);
    at.world.run_for(proto::microseconds(after_us));
    const bool ended = at.world.completion(0, operation) != nullptr;
    at.world.crash(1, false);
    const Completion& done = at.wait(0, operation);
    CHECK(done.status == (ended ? Status::ok : Status::peer_timeout));
    CHECK(done.outcome_unknown == !ended);
    CHECK(at.world.stats(0).operations_pending == 0);
    CHECK(at.world.buffers_in_use(0) == 0);
  }
}

}  // namespace
}  // namespace hawser::test
