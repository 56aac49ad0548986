// SPDX-License-Identifier: Apache-2.0
// One-sided operations through the public API: with inline progress and with engine threads, over
// memory and UDP, in C++ and in C. The protocol's own tests (test/protocol/one_sided_test.cpp) have
// what a fabric can do to them.
#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "test/engine/c_endpoint.hpp"
#include "test/engine/endpoint_pair.hpp"

namespace hawser::engine {
namespace {

// `b` exposes words to `a`, and both sessions are established.
struct OneSidedPair {
  explicit OneSidedPair(const Setting& setting, bool in_c = false, std::size_t words_exposed = 1024,
                        RegionAccess access = RegionAccess::all, Tunables tunables = short_close(),
                        const std::string& faults = "")
      : pair(setting, tunables, 2, faults), words(words_exposed) {
    if (in_c) {
      pair.a = std::make_unique<test::CEndpoint>(std::move(pair.a));
      pair.b = std::make_unique<test::CEndpoint>(std::move(pair.b));
    }
    REQUIRE(
        pair.b->expose({.data = words.data(), .bytes = bytes(), .access = access, .user_data = 33},
                       region) == Status::ok);
    REQUIRE(pair.b->region_key(region, key) == Status::ok);
    REQUIRE(key.bytes == bytes());
    check_that_messages_pass(pair);
  }

  [[nodiscard]] std::uint64_t bytes() const { return 8 * words.size(); }
  [[nodiscard]] WriteRequest write_of(std::span<const std::byte> data, std::uint64_t offset) const {
    return {.peer = pair.b_of_a,
            .key = key,
            .offset = offset,
            .data = data.data(),
            .bytes = data.size(),
            .user_data = 7};
  }
  [[nodiscard]] ReadRequest read_into(std::vector<std::byte>& data, std::uint64_t offset) const {
    return {.peer = pair.b_of_a,
            .key = key,
            .offset = offset,
            .data = data.data(),
            .bytes = data.size(),
            .user_data = 8};
  }
  [[nodiscard]] AtomicRequest add(std::size_t word, std::uint64_t operand) const {
    return {.peer = pair.b_of_a,
            .key = key,
            .offset = 8 * word,
            .word = {AtomicOperation::add, 8, operand, 0},
            .fetches = true,
            .user_data = 9};
  }
  Status call(const WriteRequest& request, OperationId& operation) {
    return pair.a->write(request, operation);
  }
  Status call(const ReadRequest& request, OperationId& operation) {
    return pair.a->read(request, operation);
  }
  Status call(const AtomicRequest& request, OperationId& operation) {
    return pair.a->atomic(request, operation);
  }
  Status call(const FlushRequest& request, OperationId& operation) {
    return pair.a->flush_channel(request, operation);
  }
  template <class Request>
  OperationId post(const Request& request) {
    OperationId operation = kNoOperation;
    REQUIRE(call(request, operation) == Status::ok);
    return operation;
  }
  // The completion of the only operation that is under way.
  template <class Request>
  Completion run(const Request& request) {
    const OperationId operation = post(request);
    const Completion done = pair.next(*pair.a);
    REQUIRE(done.operation == operation);
    return done;
  }
  [[nodiscard]] std::span<const std::byte> memory() const {
    return std::as_bytes(std::span(words));
  }

  EndpointPair pair;
  std::vector<std::uint64_t> words;
  RegionId region = kNoRegion;
  RegionKey key{};
};

bool equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

TEST_CASE("OneSided__writes_reads_and_atomics_reach_a_peers_memory") {
  const Setting setting = GENERATE(from_range(all_settings()));
  const bool in_c = GENERATE(false, true);
  CAPTURE(setting, in_c);
  OneSidedPair at(setting, in_c, 100'000);
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{5'000}, std::size_t{700'000}}) {
    CAPTURE(bytes);
    const std::vector<std::byte> sent = pattern(bytes, bytes);
    const Completion written = at.run(at.write_of(sent, 64));
    CHECK(written.kind == OperationKind::write);
    CHECK(written.status == Status::ok);
    CHECK(written.executed);
    CHECK(written.released);
    CHECK(written.bytes == bytes);
    CHECK(written.user_data == 7);
    CHECK(written.peer == at.pair.b_of_a);
    CHECK(equal(at.memory().subspan(64, bytes), sent));
    std::vector<std::byte> got(bytes);
    const Completion read = at.run(at.read_into(got, 64));
    CHECK(read.kind == OperationKind::read);
    CHECK(read.status == Status::ok);
    CHECK(read.bytes == bytes);
    CHECK(read.user_data == 8);
    CHECK(got == sent);
  }
  at.words[0] = 40;
  const Completion added = at.run(at.add(0, 2));
  CHECK(added.kind == OperationKind::atomic);
  CHECK(added.status == Status::ok);
  CHECK(added.immediate == 40);
  CHECK(at.words[0] == 42);
}

TEST_CASE("OneSided__a_write_signals_and_its_notice_comes_with_the_completions") {
  const Setting setting = GENERATE(from_range(all_settings()));
  const bool in_c = GENERATE(false, true);
  CAPTURE(setting, in_c);
  OneSidedPair at(setting, in_c, 20'000);
  const std::vector<std::byte> sent = pattern(100'000, 5);
  WriteRequest write = at.write_of(sent, 128);
  write.channel = 4;
  write.signal = Signal{.key = at.key, .offset = 8, .word = {AtomicOperation::add, 8, 3, 0}};
  write.notifies = true;
  write.immediate = 77;
  const OperationId operation = at.post(write);
  const Completion notice = at.pair.next(*at.pair.b);
  CHECK(notice.kind == OperationKind::notice);
  CHECK(notice.operation == kNoOperation);
  CHECK(notice.status == Status::ok);
  CHECK(notice.user_data == 33);  // the region's
  CHECK(notice.peer == at.pair.a_of_b);
  CHECK(notice.channel == 4);
  CHECK(notice.tag == 128);
  CHECK(notice.bytes == sent.size());
  CHECK(notice.immediate == 77);
  CHECK(equal(at.memory().subspan(128, sent.size()), sent));
  const Completion done = at.pair.next(*at.pair.a);
  CHECK(at.words[1] == 3);  // the signal of a long write may come after its notice
  CHECK(done.operation == operation);
  CHECK(done.status == Status::ok);
  CHECK(done.channel == 4);
}

// More notices than the endpoint keeps for its program: the rest wait at their senders.
TEST_CASE("OneSided__notices_wait_for_a_program_that_does_not_poll") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  constexpr std::uint64_t kNotices = 4'000;
  Tunables tunables = short_close();
  tunables.max_operations = 256;
  OneSidedPair at(setting, false, 64, RegionAccess::all, tunables);
  const std::vector<std::byte> sent = pattern(8, 5);
  WriteRequest write = at.write_of(sent, 0);
  write.notifies = true;
  std::uint64_t posted = 0;
  std::uint64_t done = 0;
  std::vector<std::uint64_t> seen;
  std::array<Completion, 64> completions;
  const auto turn = [&] {
    OperationId operation = kNoOperation;
    while (posted < kNotices) {
      write.immediate = posted;
      const Status status = at.pair.a->write(write, operation);
      if (status == Status::again) break;
      REQUIRE(status == Status::ok);
      ++posted;
    }
    const std::size_t count = at.pair.a->wait(completions, 100'000);
    for (const Completion& completion : std::span(completions).first(count)) {
      REQUIRE(completion.status == Status::ok);
      ++done;
    }
    if (setting.threads == 0) (void)at.pair.b->poll({});
  };
  // The target's program looks away: what it has no place for is not executed.
  std::uint64_t quiet_turns = 0;
  for (const HangLimit limit; quiet_turns < 50 && !limit.is_over();) {
    const std::uint64_t before = done;
    turn();
    quiet_turns = done == before ? quiet_turns + 1 : 0;
  }
  CHECK(done < kNotices);
  const auto is_over = [&] {
    turn();
    const std::size_t count = at.pair.b->poll(completions);
    for (const Completion& notice : std::span(completions).first(count)) {
      REQUIRE(notice.kind == OperationKind::notice);
      seen.push_back(notice.immediate);
    }
    return done == kNotices && seen.size() >= kNotices;
  };
  REQUIRE(comes_true(is_over));
  std::ranges::sort(seen);
  for (std::uint64_t i = 0; i < kNotices; ++i) REQUIRE(seen[i] == i);
}

TEST_CASE("OneSided__fetched_values_are_those_of_one_order") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  constexpr std::uint64_t kAdds = 2'000;
  OneSidedPair at(setting, false, 8, RegionAccess::all, short_close(),
                  "loss=0.02,duplicate=0.02,reorder=0.05,seed=3");
  std::vector<bool> seen(kAdds);
  std::uint64_t posted = 0;
  std::uint64_t done = 0;
  REQUIRE(comes_true([&] {
    OperationId operation = kNoOperation;
    while (posted < kAdds && at.pair.a->atomic(at.add(0, 1), operation) == Status::ok) ++posted;
    std::array<Completion, 64> completions;
    const std::size_t count = at.pair.a->wait(completions, 100'000);
    for (const Completion& completion : std::span(completions).first(count)) {
      REQUIRE(completion.status == Status::ok);
      REQUIRE(completion.immediate < kAdds);
      REQUIRE_FALSE(seen[completion.immediate]);
      seen[completion.immediate] = true;
      ++done;
    }
    (void)at.pair.b->poll({});
    return done == kAdds;
  }));
  CHECK(std::atomic_ref(at.words[0]).load() == kAdds);
}

// A packet's checksum is of the bytes that leave, although the target's program changes them.
TEST_CASE("OneSided__a_word_that_changes_without_pause_can_be_read") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  OneSidedPair at(setting);
  const std::jthread counter([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) std::atomic_ref(at.words[3]).fetch_add(1);
  });
  std::uint64_t last = 0;
  std::vector<std::byte> got(8);
  for (int i = 0; i < 100; ++i) {
    const Completion done = at.run(at.read_into(got, 24));
    std::uint64_t value = 0;
    std::memcpy(&value, got.data(), sizeof value);
    CHECK(done.status == Status::ok);
    CHECK(value >= last);
    last = value;
  }
  const auto bad = static_cast<std::size_t>(DropReason::bad_checksum);
  CHECK(at.pair.a->stats().drops[bad] == 0);
}

TEST_CASE("OneSided__strong_ones_wait_and_a_flush_says_what_failed") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  OneSidedPair at(setting, false, 100'000);
  const std::vector<std::byte> sent = pattern(700'000, 9);
  WriteRequest write = at.write_of(sent, 64);
  AtomicRequest signal = at.add(0, 1);
  signal.strong = true;
  signal.fetches = false;
  at.post(write);
  const OperationId last = at.post(signal);
  CHECK(at.pair.next(*at.pair.a).status == Status::ok);
  const Completion done = at.pair.next(*at.pair.a);
  CHECK(done.operation == last);
  CHECK(done.immediate == 0);  // it fetched nothing
  CHECK(equal(at.memory().subspan(64, sent.size()), sent));

  write.key.secret ^= 1;
  CHECK(at.run(write).status == Status::access_denied);
  const Completion behind = at.run(signal);
  CHECK(behind.status == Status::predecessor_failed);
  CHECK_FALSE(behind.executed);
  CHECK_FALSE(behind.outcome_unknown);
  const FlushRequest flush{.peer = at.pair.b_of_a, .user_data = 4};
  const Completion flushed = at.run(flush);
  CHECK(flushed.kind == OperationKind::flush);
  CHECK(flushed.status == Status::predecessor_failed);
  CHECK(flushed.user_data == 4);
  CHECK(at.run(signal).status == Status::ok);
  CHECK(at.run(flush).status == Status::ok);
  CHECK(at.words[0] == 2);
}

TEST_CASE("OneSided__a_region_may_be_exposed_twice_and_withdrawn_by_itself") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  OneSidedPair at(setting);
  RegionId other = kNoRegion;
  REQUIRE(at.pair.b->expose({.data = at.words.data(), .bytes = 64, .access = RegionAccess::read},
                            other) == Status::ok);
  RegionKey read_only;
  REQUIRE(at.pair.b->region_key(other, read_only) == Status::ok);
  OperationId withdrawal = kNoOperation;
  REQUIRE(at.pair.b->withdraw(at.region, 12, withdrawal) == Status::ok);
  const Completion withdrawn = at.pair.next(*at.pair.b);
  CHECK(withdrawn.operation == withdrawal);
  CHECK(withdrawn.kind == OperationKind::withdraw);
  CHECK(withdrawn.status == Status::ok);
  CHECK(withdrawn.user_data == 12);
  CHECK(at.run(at.add(0, 1)).status == Status::access_denied);
  at.key = read_only;
  at.words[1] = 5;
  std::vector<std::byte> got(16);
  CHECK(at.run(at.read_into(got, 0)).status == Status::ok);
  CHECK(equal(got, at.memory().first(16)));
  CHECK(at.run(at.add(0, 1)).status == Status::access_denied);
  CHECK(at.words[0] == 0);
  CHECK(at.pair.b->withdraw(at.region, 0, withdrawal) == Status::unknown_operation);
  RegionKey none;
  CHECK(at.pair.b->region_key(at.region, none) == Status::unknown_operation);
}

TEST_CASE("OneSided__the_key_of_an_earlier_process_is_stale") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  OneSidedPair at(setting);
  AtomicRequest stale = at.add(0, 1);
  stale.key.process ^= 1;
  OperationId operation = kNoOperation;
  const Status called = at.pair.a->atomic(stale, operation);
  CHECK((called == Status::ok ? at.pair.next(*at.pair.a).status : called) == Status::stale_region);
  CHECK(at.words[0] == 0);
}

}  // namespace
}  // namespace hawser::engine
