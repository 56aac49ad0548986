// SPDX-License-Identifier: Apache-2.0
// Writes, reads and atomics between endpoints: over a good fabric, over a bad one, and where they
// are refused.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "test/protocol/one_sided_scene.hpp"
#include "test/protocol/packets.hpp"

namespace hawser::test {
namespace {

using proto::milliseconds;

constexpr std::size_t kSizes[] = {0, 1, 8, 4095, 4096, 4097, 65536, 1000000};

TEST_CASE("one_sided__a_write_is_placed_and_nothing_beside_it", "[O1][O4][O27]") {
  for (const std::size_t bytes : kSizes) {
    INFO(bytes << " bytes");
    OneSidedScene at({}, bytes + 64);
    const std::string sent = pattern(bytes, bytes);
    const Completion& done = at.run(0, at.write_to(0, 1, 24, sent));
    CHECK(done.status == Status::ok);
    CHECK(done.kind == OperationKind::write);
    CHECK(done.bytes == bytes);
    CHECK(at.text(1, 24, bytes) == sent);
    CHECK(at.text(1, 0, 24) == std::string(24, '\0'));
    CHECK(at.text(1, 24 + bytes, 40) == std::string(40, '\0'));
    at.world.run_for(milliseconds(100));
    CHECK(at.world.stats(0).fragments_retransmitted == 0);
    CHECK(at.world.buffers_in_use(0) == 0);
    CHECK(at.world.buffers_in_use(1) == 0);
    CHECK(at.world.completions(1).empty());  // the target's program hears nothing
  }
}

TEST_CASE("one_sided__a_read_brings_the_bytes", "[O1][O20][O27]") {
  for (const std::size_t bytes : kSizes) {
    INFO(bytes << " bytes");
    OneSidedScene at({}, bytes + 64);
    const std::string there = pattern(bytes, bytes);
    std::memcpy(at.at(1, 16), there.data(), bytes);
    std::string got(bytes, 'x');
    const Completion& done = at.run(0, at.read_from(0, 1, 16, got));
    CHECK(done.status == Status::ok);
    CHECK(done.kind == OperationKind::read);
    CHECK(done.bytes == bytes);
    CHECK(got == there);
    at.world.run_for(milliseconds(100));
    CHECK(at.world.buffers_in_use(0) == 0);
    CHECK(at.world.buffers_in_use(1) == 0);
    CHECK(at.world.completions(1).empty());
  }
}

TEST_CASE("one_sided__an_atomic_is_executed_and_fetches_the_word_from_before", "[O1][O6][O20]") {
  OneSidedScene at({});
  at.word(1, 2) = 40;
  const Completion& done = at.run(0, at.add_at(0, 1, 16, 2));
  CHECK(done.status == Status::ok);
  CHECK(done.kind == OperationKind::atomic);
  CHECK(done.immediate == 40);
  CHECK(at.word(1, 2) == 42);
  auto swap = at.add_at(0, 1, 16, 7);
  swap.word.operation = AtomicOperation::compare_and_swap;
  swap.word.compare = 41;
  CHECK(at.run(0, swap).immediate == 42);
  CHECK(at.word(1, 2) == 42);
  swap.word.compare = 42;
  swap.fetches = false;
  CHECK(at.run(0, swap).status == Status::ok);
  CHECK(at.word(1, 2) == 7);
}

TEST_CASE("one_sided__a_write_signals_and_notifies_once_it_is_placed", "[O25][O26]") {
  for (const std::size_t bytes : {8, 100000}) {
    INFO(bytes << " bytes");
    OneSidedScene at({}, bytes + 64);
    const std::string sent = pattern(1, bytes);
    const Signal signal{.key = at.keys[1], .offset = 0, .word = {AtomicOperation::add, 8, 5, 0}};
    auto write = at.write_to(0, 1, 64, sent);
    write.signal = signal;
    write.notifies = true;
    write.immediate = 99;
    write.channel = 3;
    const OperationId operation = at.post(0, write);
    REQUIRE(at.world.run_until(
        [&] {
          if (at.word(1, 0) == 0) return false;
          REQUIRE(at.text(1, 64, bytes) == sent);
          return true;
        },
        milliseconds(1000)));
    CHECK(at.wait(0, operation).status == Status::ok);
    CHECK(at.word(1, 0) == 5);
    Completion notice;
    REQUIRE(at.world.endpoint(1).poll_notices({&notice, 1}) == 1);
    CHECK(notice.peer == at.world.peer(1, 0));
    CHECK(notice.channel == 3);
    CHECK(notice.immediate == 99);
    CHECK(notice.kind == OperationKind::notice);
    CHECK(notice.operation == kNoOperation);
    CHECK(notice.user_data == 1);  // the region's
    CHECK(notice.tag == 64);
    CHECK(notice.bytes == bytes);
    CHECK(at.world.endpoint(1).poll_notices({&notice, 1}) == 0);
  }
}

// Two nodes add to the words of a third, over a fabric that loses, doubles and reorders. Each value
// is fetched once, so each operation was executed once.
TEST_CASE("one_sided__atomics_are_executed_once_whatever_the_fabric_does", "[O14][O15][O20]") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    INFO("seed " << seed);
    OneSidedScene at(bad_fabric(seed, 3));
    constexpr std::size_t kEach = 300;
    std::vector<std::pair<std::uint32_t, OperationId>> posted;
    for (std::size_t i = 0; i < kEach; ++i) {
      for (const std::uint32_t node : {0u, 1u})
        posted.emplace_back(node, at.post(node, at.add_at(node, 2, 8, 1)));
    }
    std::set<std::uint64_t> fetched;
    for (const auto& [node, operation] : posted) {
      const Completion& done = at.wait(node, operation);
      REQUIRE(done.status == Status::ok);
      CHECK(fetched.insert(done.immediate).second);
    }
    CHECK(at.word(2, 1) == 2 * kEach);
    CHECK(*fetched.rbegin() == 2 * kEach - 1);
  }
}

// Signals and notices, too: nothing is executed or told twice.
TEST_CASE("one_sided__signals_and_notices_come_once_whatever_the_fabric_does", "[O15][O25][O26]") {
  std::uint64_t duplicates = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    INFO("seed " << seed);
    WorldConfig config;
    config.nics = 2;
    config.seed = seed;
    config.faults = "delay=5us,loss=0.05,duplicate=0.3,reorder=0.3";
    OneSidedScene at(config, 1 << 20);
    constexpr std::size_t kWrites = 150;
    const std::string sent = pattern(seed, 6000);
    std::vector<OperationId> posted;
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < kWrites; ++i) {
      const Signal signal{.key = at.keys[1], .offset = 8, .word = {AtomicOperation::add, 8, i, 0}};
      auto write = at.write_to(0, 1, 64 + 6000 * i, sent);
      if (i % 2 == 0) write.bytes = 50;  // the others have two fragments
      write.signal = signal;
      write.notifies = true;
      write.immediate = i;
      posted.push_back(at.post(0, write));
      sum += i;
    }
    for (const OperationId operation : posted) REQUIRE(at.wait(0, operation).status == Status::ok);
    at.world.run_for(milliseconds(50));  // for what comes late
    CHECK(at.word(1, 1) == sum);
    std::set<std::uint64_t> told;
    Completion notice;
    while (at.world.endpoint(1).poll_notices({&notice, 1}) == 1)
      CHECK(told.insert(notice.immediate).second);
    CHECK(told.size() == kWrites);
    duplicates += at.world.drops(1, DropReason::duplicate_fragment);
  }
  CHECK(duplicates > 0);
}

TEST_CASE("one_sided__numbers_match_no_receive_and_messages_need_no_order_with_them",
          "[O13][O14][O35]") {
  WorldConfig config;
  config.faults = "delay=5us,loss=0.05,reorder=0.1";
  OneSidedScene at(config, 1 << 20);
  const std::string sent = pattern(1, 5000);
  std::vector<OperationId> operations;
  std::vector<OperationId> sends;
  for (std::uint64_t i = 0; i < 40; ++i) {
    operations.push_back(at.post(0, at.write_to(0, 1, 5000 * i, sent)));
    sends.push_back(at.world.send(0, 1, i, sent, {.level = Level::delivered}));
    auto strong = at.add_at(0, 1, 8 * (1 << 16), 1);
    strong.strong = true;  // waits for no message
    if (i % 8 == 0) operations.push_back(at.post(0, strong));
  }
  for (const OperationId operation : operations) CHECK(at.wait(0, operation).status == Status::ok);
  for (const OperationId send : sends) CHECK(at.world.completion(0, send) == nullptr);
  std::string into(5000, 'x');
  for (std::uint64_t i = 0; i < 40; ++i) {
    const OperationId receive = at.world.receive(1, at.world.peer(1, 0), 0, into, 0);
    CHECK(at.wait(1, receive).tag == i);  // each receive has the next message
    CHECK(into == sent);
    CHECK(at.wait(0, sends[i]).status == Status::ok);
  }
  // Programs compare these two, and a one-sided operation is no message.
  CHECK(at.world.stats(0).messages_sent == 40);
  CHECK(at.world.stats(1).messages_received == 40);
}

TEST_CASE("one_sided__long_writes_and_reads_survive_a_bad_fabric", "[O1][O18]") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    INFO("seed " << seed);
    WorldConfig config;
    config.nics = 4;
    config.seed = seed;
    config.faults = "delay=5us,loss=0.05,duplicate=0.01,reorder=0.05,corrupt=0.001";
    OneSidedScene at(config, 2000000);
    const std::string sent = pattern(seed, 1000000);
    const std::string there = pattern(seed + 100, 900000);
    std::memcpy(at.at(1, 1000000), there.data(), there.size());
    std::string got(there.size(), 'x');
    const OperationId write = at.post(0, at.write_to(0, 1, 0, sent));
    const OperationId read = at.post(0, at.read_from(0, 1, 1000000, got));
    CHECK(at.wait(0, write).status == Status::ok);
    CHECK(at.wait(0, read).status == Status::ok);
    CHECK(at.text(1, 0, sent.size()) == sent);
    CHECK(got == there);
  }
}

// Over a fabric that loses and reorders, whoever sees the flag sees all that was written before.
TEST_CASE("one_sided__a_strong_signal_comes_after_all_writes_before_it", "[O30][O31]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    WorldConfig config;
    config.nics = 3;
    config.seed = seed;
    config.faults = "delay=5us,loss=0.1,reorder=0.2";
    OneSidedScene at(config, 1 << 18);
    const std::string sent = pattern(seed, 200000);
    std::vector<std::string> parts;
    for (std::size_t begin = 0; begin < sent.size(); begin += 20000)
      parts.push_back(sent.substr(begin, 20000));
    std::vector<OperationId> posted;
    for (std::size_t i = 0; i < parts.size(); ++i)
      posted.push_back(at.post(0, at.write_to(0, 1, 64 + 20000 * i, parts[i])));
    auto flag = at.add_at(0, 1, 0, 1);
    flag.strong = true;
    posted.push_back(at.post(0, flag));
    const std::string later = pattern(seed + 1, 100);
    posted.push_back(at.post(0, at.write_to(0, 1, 1 << 17, later)));  // waits for nothing
    bool seen = false;
    REQUIRE(at.world.run_until(
        [&] {
          if (!seen && at.word(1, 0) == 1) {
            seen = true;
            REQUIRE(at.text(1, 64, (1 << 17) - 64) == sent.substr(0, (1 << 17) - 64));
          }
          return seen;
        },
        milliseconds(5000)));
    for (const OperationId operation : posted) CHECK(at.wait(0, operation).status == Status::ok);
  }
}

TEST_CASE("one_sided__a_flush_ends_after_all_before_it", "[O33]") {
  WorldConfig config;
  config.faults = "delay=5us,loss=0.1";
  OneSidedScene at(config, 1 << 18);
  const std::string sent = pattern(1, 100000);
  const OperationId write = at.post(0, at.write_to(0, 1, 0, sent));
  const OperationId add = at.post(0, at.add_at(0, 1, 200000, 1));
  const OperationId flush = at.flush(0, 1, 0);
  CHECK(at.wait(0, flush).status == Status::ok);
  CHECK(at.world.completion(0, flush)->kind == OperationKind::flush);
  CHECK(at.world.completion(0, write) != nullptr);
  CHECK(at.world.completion(0, add) != nullptr);
  CHECK(at.wait(0, at.flush(0, 1, 0)).status == Status::ok);  // nothing is under way
}

TEST_CASE("one_sided__strong_ones_behind_a_failure_fail_until_a_flush_has_told_it", "[O32][O33]") {
  OneSidedScene at({});
  auto wrong = at.add_at(0, 1, 0, 1);
  wrong.key.secret ^= 1;
  auto strong = at.add_at(0, 1, 0, 1);
  strong.strong = true;
  const OperationId failed = at.post(0, wrong);
  const OperationId first = at.post(0, strong);
  const OperationId weak = at.post(0, at.add_at(0, 1, 0, 10));
  CHECK(at.wait(0, failed).status == Status::access_denied);
  CHECK(at.wait(0, first).status == Status::predecessor_failed);
  CHECK_FALSE(at.world.completion(0, first)->executed);
  CHECK(at.wait(0, weak).status == Status::ok);
  CHECK(at.run(0, strong).status == Status::predecessor_failed);
  strong.channel = 5;
  CHECK(at.run(0, strong).status == Status::ok);  // another channel
  strong.channel = 0;
  CHECK(at.wait(0, at.flush(0, 1, 0)).status == Status::predecessor_failed);
  CHECK(at.run(0, strong).status == Status::ok);
  CHECK(at.word(1, 0) == 12);
}

// A refusal ends one operation alone: the session lives, and nothing was touched.
TEST_CASE("one_sided__wrong_keys_are_denied_and_the_session_lives", "[O7][O38]") {
  OneSidedScene at({});
  const std::string sent = pattern(1, 100);
  auto write = at.write_to(0, 1, 0, sent);
  write.key.secret ^= 1;
  CHECK(at.run(0, write).status == Status::access_denied);
  write.key = at.keys[1];
  write.key.generation += 1;
  CHECK(at.run(0, write).status == Status::access_denied);
  write.key = at.keys[1];
  write.key.bytes = 1 << 20;  // the target knows better
  write.offset = (1 << 16) - 50;
  CHECK(at.run(0, write).status == Status::access_denied);
  CHECK(at.text(1, 0, 1 << 16) == std::string(1 << 16, '\0'));
  CHECK(at.run(0, at.write_to(0, 1, 0, sent)).status == Status::ok);
  CHECK(at.world.stats(0).sessions_established == 1);
}

TEST_CASE("one_sided__rights_are_kept_apart", "[O8]") {
  for (const RegionAccess rights :
       {RegionAccess::write, RegionAccess::read, RegionAccess::atomic}) {
    OneSidedScene at({}, 4096, rights);
    const auto expected = [&](RegionAccess wanted) {
      return rights == wanted ? Status::ok : Status::access_denied;
    };
    const std::string sent = pattern(1, 100);
    std::string got(100, 'x');
    CHECK(at.run(0, at.write_to(0, 1, 0, sent)).status == expected(RegionAccess::write));
    CHECK(at.run(0, at.read_from(0, 1, 0, got)).status == expected(RegionAccess::read));
    CHECK(at.run(0, at.add_at(0, 1, 0, 1)).status == expected(RegionAccess::atomic));
    if (rights != RegionAccess::read) CHECK(got == std::string(100, 'x'));
  }
}

TEST_CASE("one_sided__a_misaligned_word_is_refused", "[O9]") {
  OneSidedScene at({});
  CHECK(at.run(0, at.add_at(0, 1, 4, 1)).status == Status::misaligned);
  CHECK(at.word(1, 0) == 0);
  auto narrow = at.add_at(0, 1, 4, 1);
  narrow.word.width = 4;
  CHECK(at.run(0, narrow).status == Status::ok);
}

TEST_CASE("one_sided__arguments_that_can_not_be_right_are_refused_at_the_call", "[O40]") {
  OneSidedScene at({});
  const std::string sent = pattern(1, 100);
  auto write = at.write_to(0, 1, (1 << 16) - 99, sent);
  CHECK(at.refusal(0, write) == Status::invalid_argument);
  write = at.write_to(0, 1, 0, sent);
  write.data = nullptr;
  CHECK(at.refusal(0, write) == Status::invalid_argument);
  write = at.write_to(0, 1, 0, sent);
  write.key.process ^= 1;
  CHECK(at.refusal(0, write) == Status::stale_region);
  auto add = at.add_at(0, 1, 0, 1);
  add.word.width = 2;
  CHECK(at.refusal(0, add) == Status::invalid_argument);
  RegionId region{};
  CHECK(at.world.endpoint(0).expose({.bytes = 8, .access = RegionAccess::all}, at.placement,
                                    region) == Status::invalid_argument);
}

TEST_CASE("one_sided__calls_wait_for_no_session", "[O40]") {
  World world(tiny_world());
  proto::HostPlacement placement;
  std::vector<std::uint64_t> memory(8);
  RegionId region{};
  RegionKey key;
  REQUIRE(
      world.endpoint(1).expose({.data = memory.data(), .bytes = 64, .access = RegionAccess::all},
                               placement, region) == Status::ok);
  REQUIRE(world.endpoint(1).region_key(region, key) == Status::ok);
  AtomicRequest add{.peer = world.peer(0, 1), .key = key, .word = {AtomicOperation::add, 8, 1, 0}};
  CHECK(world.post(0, add) == Status::again);
  CHECK(world.post(0, FlushRequest{.peer = add.peer}) == Status::again);
  REQUIRE(world.run_until([&] { return world.post(0, add) == Status::ok; }, milliseconds(100)));
  REQUIRE(world.run_until_completed(0, 1, milliseconds(100)));
  CHECK(memory[0] == 1);
}

TEST_CASE("one_sided__nothing_is_touched_after_a_withdrawal", "[O41][O42][O44]") {
  OneSidedScene at({}, 1 << 20);
  const std::string sent = pattern(1, 1 << 20);
  std::string got(1 << 20, 'x');
  const OperationId write = at.post(0, at.write_to(0, 1, 0, sent));
  const OperationId read = at.post(0, at.read_from(0, 1, 0, got));
  REQUIRE(at.world.run_until([&] { return at.word(1, 100) != 0; }, milliseconds(100)));
  OperationId withdrawal{};
  REQUIRE(at.world.withdraw(1, at.regions[1], withdrawal) == Status::ok);
  CHECK(at.wait(1, withdrawal).status == Status::ok);
  const std::vector<std::uint64_t> left = at.memory[1];
  CHECK(at.wait(0, write).status == Status::region_withdrawn);
  const Status of_read = at.wait(0, read).status;
  CHECK((of_read == Status::region_withdrawn || of_read == Status::access_denied));
  CHECK(at.run(0, at.add_at(0, 1, 0, 1)).status == Status::access_denied);
  CHECK(at.memory[1] == left);
  at.world.run_for(milliseconds(100));
  CHECK(at.world.buffers_in_use(1) == 0);
}

TEST_CASE("one_sided__a_dead_peer_ends_what_is_under_way", "[O39][O27]") {
  OneSidedScene at({}, 1 << 20);
  const std::string sent = pattern(1, 1 << 20);
  std::string got(1 << 20, 'x');
  const OperationId write = at.post(0, at.write_to(0, 1, 0, sent));
  const OperationId read = at.post(0, at.read_from(0, 1, 0, got));
  // Node 1 writes as well, so that node 0 is a target whose initiator dies.
  const std::string other = pattern(2, 600000);
  (void)at.post(1, at.write_to(1, 0, 4096, other));
  REQUIRE(at.world.run_until([&] { return at.word(0, 4096 / 8) != 0; }, milliseconds(100)));
  at.world.crash(1, false);
  for (const OperationId operation : {write, read}) {
    const Completion& done = at.wait(0, operation);
    CHECK(done.status == Status::peer_timeout);
    // The target may have told that it executed the read; what it read is lost.
    CHECK(done.outcome_unknown != (operation == read && done.executed));
  }
  RegionStats left;
  REQUIRE(at.world.endpoint(0).region_stats(at.regions[0], left) == Status::ok);
  CHECK(left.unfinished_writes == 1);
  CHECK(left.unfinished_from == 4096);
  CHECK(left.unfinished_to == 4096 + other.size());
  Completion notice;
  REQUIRE(at.world.endpoint(0).poll_notices({&notice, 1}) == 1);
  CHECK(notice.status == Status::peer_timeout);
  CHECK(notice.tag == 4096);
  CHECK(notice.bytes == other.size());
}

// A reply stops at once: no byte leaves that the owner writes after the withdrawal.
TEST_CASE("one_sided__no_byte_from_after_a_withdrawal_reaches_a_reader", "[O43][O44]") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    INFO("seed " << seed);
    OneSidedScene at(bad_fabric(seed), 1 << 20);
    std::memset(at.at(1), 'o', 1 << 20);
    std::string got(1 << 20, '-');
    const OperationId read = at.post(0, at.read_from(0, 1, 0, got));
    REQUIRE(at.world.run_until([&] { return got[seed * 10000] == 'o'; }, milliseconds(500)));
    OperationId withdrawal{};
    REQUIRE(at.world.withdraw(1, at.regions[1], withdrawal) == Status::ok);
    CHECK(at.wait(1, withdrawal).status == Status::ok);
    std::memset(at.at(1), 'p', 1 << 20);
    CHECK(at.wait(0, read).status == Status::region_withdrawn);
    CHECK(at.world.completion(0, read)->executed);
    at.world.run_for(milliseconds(200));
    CHECK(got.find('p') == std::string::npos);
    CHECK(got.find('-') != std::string::npos);
    RegionKey key;
    CHECK(at.world.endpoint(1).region_key(at.regions[1], key) == Status::unknown_operation);
    CHECK(at.world.buffers_in_use(1) == 0);
  }
}

TEST_CASE("one_sided__an_old_key_does_nothing_to_the_owners_next_process", "[O39][O40]") {
  OneSidedScene at({}, 1 << 20);
  const std::string sent = pattern(1, 1 << 20);
  const OperationId write = at.post(0, at.write_to(0, 1, 0, sent));
  at.world.run_for(proto::microseconds(20));
  at.world.crash(1, true);
  const std::vector<std::uint64_t> zeros((1 << 20) / 8);
  at.memory[1] = zeros;  // the next process exposes memory in the same place, as the same region
  REQUIRE(
      at.world.endpoint(1).expose({.data = at.at(1), .bytes = 1 << 20, .access = RegionAccess::all},
                                  at.placement, at.regions[1]) == Status::ok);
  RegionKey key;
  REQUIRE(at.world.endpoint(1).region_key(at.regions[1], key) == Status::ok);
  CHECK(key.region == at.keys[1].region);
  CHECK(key.generation == at.keys[1].generation);
  CHECK(key.secret != at.keys[1].secret);
  CHECK(key.process != at.keys[1].process);
  (void)at.world.peer(1, 0);  // it calls
  const Completion& done = at.wait(0, write);
  CHECK(done.status == Status::peer_restarted);
  CHECK(done.outcome_unknown);
  CHECK_FALSE(done.executed);
  at.world.reconnect(0, 1);
  auto again = at.write_to(0, 1, 0, sent);
  Status status = Status::again;
  REQUIRE(at.world.run_until(
      [&] {
        status = at.refusal(0, again);
        return status != Status::again;
      },
      milliseconds(1000)));
  CHECK(status == Status::stale_region);
  at.world.run_for(milliseconds(200));
  CHECK(at.memory[1] == zeros);
  at.keys[1] = key;
  CHECK(at.run(0, at.write_to(0, 1, 0, sent)).status == Status::ok);
}

// The completion says whether an operation whose session ended may have been executed.
TEST_CASE("one_sided__ends_of_sessions_say_what_may_have_been_executed", "[O39]") {
  for (const bool disconnects : {true, false}) {
    INFO("disconnects " << disconnects);
    OneSidedScene at({}, 1 << 20);
    const std::string sent = pattern(1, 1 << 20);
    const OperationId write = at.post(0, at.write_to(0, 1, 0, sent));
    auto strong = at.add_at(0, 1, 0, 1);
    strong.strong = true;
    const OperationId held = at.post(0, strong);
    const OperationId flush = at.flush(0, 1, 0);
    at.world.run_for(proto::microseconds(20));
    REQUIRE(at.word(1, 0) != 0);
    REQUIRE(at.world.completions(0).empty());
    if (disconnects) {
      at.world.disconnect(0, 1);
    } else {
      at.world.crash(1, false);
    }
    const Status expected = disconnects ? Status::endpoint_closed : Status::peer_timeout;
    for (const OperationId operation : {write, held, flush}) {
      const Completion& done = at.wait(0, operation);
      CHECK(done.status == expected);
      CHECK(done.outcome_unknown == (operation == write));
      CHECK_FALSE(done.executed);
    }
  }
}

TEST_CASE("one_sided__an_owner_that_closes_first_ends_its_replies", "[O46]") {
  for (const std::uint32_t closes : {0u, 1u}) {
    INFO("node " << closes << " closes");
    WorldConfig config;
    config.faults = "delay=5us,loss=0.1";
    OneSidedScene at(config, 1 << 20);
    const std::string there = pattern(1, 1 << 20);
    std::memcpy(at.at(1), there.data(), there.size());
    std::string got(1 << 20, 'x');
    const OperationId read = at.post(0, at.read_from(0, 1, 0, got));
    REQUIRE(at.world.run_until([&] { return got[100000] != 'x'; }, milliseconds(500)));
    at.world.close(closes);
    CHECK(at.wait(0, read).status == Status::ok);
    CHECK(got == there);
    REQUIRE(
        at.world.run_until([&] { return at.world.endpoint(closes).closed(); }, milliseconds(5000)));
  }
}

TEST_CASE("one_sided__a_failure_that_no_flush_has_told_keeps_an_end_awake", "[R1][R4][O45]") {
  WorldConfig config;
  config.tunables.rest_after_ms = 5;
  OneSidedScene at(config);
  const auto rests = [&](std::uint32_t node) { return at.world.stats(node).peers_awake == 0; };
  auto wrong = at.add_at(0, 1, 0, 1);
  wrong.key.secret ^= 1;
  CHECK(at.run(0, wrong).status == Status::access_denied);
  at.world.run_for(milliseconds(200));
  CHECK_FALSE(rests(0));
  CHECK(rests(1));
  CHECK(at.wait(0, at.flush(0, 1, 0)).status == Status::predecessor_failed);
  REQUIRE(at.world.run_until([&] { return rests(0) && rests(1); }, milliseconds(100)));
  CHECK(at.run(0, at.add_at(0, 1, 0, 1)).status == Status::ok);  // it knows what the peer can do
}

TEST_CASE("one_sided__fetches_and_replies_keep_both_ends_awake", "[O45]") {
  bool loses = true;
  WorldConfig config;
  config.tunables.rest_after_ms = 5;
  config.hook = [&](std::uint32_t node, std::uint32_t, const engine::FaultPacket& packet) {
    const bool is_reply = packet.direction == engine::Direction::tx && node == 1 &&
                          view_of(packet).type == proto::wire::PacketType::write;
    return loses && is_reply ? std::optional(engine::Fate{.drop = true}) : std::nullopt;
  };
  OneSidedScene at(config);
  std::string got(8, 'x');
  const OperationId read = at.post(0, at.read_from(0, 1, 0, got));
  at.world.run_for(milliseconds(200));
  for (const std::uint32_t node : {0u, 1u}) CHECK(at.world.stats(node).peers_awake == 1);
  loses = false;
  CHECK(at.wait(0, read).status == Status::ok);
  REQUIRE(at.world.run_until(
      [&] { return at.world.stats(0).peers_awake + at.world.stats(1).peers_awake == 0; },
      milliseconds(200)));
}

}  // namespace
}  // namespace hawser::test
