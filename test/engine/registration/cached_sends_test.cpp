// SPDX-License-Identifier: Apache-2.0
// Sends from memory that the program has not registered: the cache in whole endpoints.
#include <sys/mman.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>
#include <thread>

#include "test/engine/registration/fake_pair.hpp"

namespace hawser::engine {
namespace {

constexpr std::size_t kBytes = std::size_t{256} << 10;

}  // namespace

TEST_CASE("CachedSends__the_first_send_is_copied_and_later_ones_go_in_place") {
  if (!cache_works_here()) return;
  const unsigned threads = GENERATE(0u, 1u);
  CAPTURE(threads);
  OwnMemory memory(kBytes);
  memory.fill(1);
  FakePair pair(threads);
  REQUIRE(pair.is_cached(memory.bytes()));
  CHECK(pair.fabric.registrations() == pair.own + kNics);
  memory.fill(2);
  const auto [in_place, copied] = pair.payload_of(memory.bytes());
  CHECK(in_place >= kBytes);
  CHECK(copied == 0);
  // A part of the memory is a hit, too.
  const auto part = pair.payload_of(memory.bytes().subspan(100, kBytes / 2));
  CHECK(part.first >= kBytes / 2);
  CHECK(part.second == 0);
  const EndpointStats stats = pair.a->stats();
  CHECK(stats.registration_hits == 2);
  CHECK(stats.registrations == 1);
  CHECK(stats.registered_bytes == kBytes);
}

TEST_CASE("CachedSends__short_sends_are_copied") {
  if (!cache_works_here()) return;
  OwnMemory memory(kBytes);
  FakePair pair(0);
  const auto [in_place, copied] = pair.payload_of(memory.bytes().first(16383));
  CHECK(in_place == 0);
  CHECK(copied >= 16383);
  CHECK(pair.a->stats().registration_misses == 0);
  CHECK(pair.a->stats().registrations == 0);
}

TEST_CASE("CachedSends__unmapped_memory_is_deregistered_and_what_comes_there_is_copied") {
  if (!cache_works_here()) return;
  const unsigned threads = GENERATE(0u, 1u);
  CAPTURE(threads);
  OwnMemory memory(kBytes);
  FakePair pair(threads);
  for (std::uint64_t round = 1; round <= 20; ++round) {
    memory.fill(round);
    REQUIRE(pair.is_cached(memory.bytes()));
    CHECK(pair.fabric.registrations() == pair.own + kNics);
    const std::uint64_t stale = pair.a->stats().registrations_stale;
    memory.replace();
    memory.fill(1000 + round);
    // Send at once, whether the endpoint has noticed the new mapping or not.
    std::vector<std::byte> received(4096);
    post_receive(*pair.b, kAnyPeer, 1000 + round, received);
    const auto [in_place, copied] = pair.payload([&] {
      post_send(*pair.a, pair.b_of_a, 1000 + round, memory.bytes().first(4096));
      CHECK(next_of(*pair.a, *pair.b).status == Status::ok);
    });
    CHECK(in_place == 0);
    CHECK(copied >= 4096);
    CHECK(next_of(*pair.b, *pair.a).status == Status::ok);
    CHECK(std::equal(received.begin(), received.end(), memory.data()));
    REQUIRE(pair.becomes([&] { return pair.fabric.registrations() == pair.own; }));
    CHECK(pair.a->stats().registrations_stale == stale + 1);
    CHECK(pair.becomes([&] { return pair.a->stats().registrations == 0; }));
  }
}

TEST_CASE("CachedSends__no_more_is_registered_than_the_limits_say") {
  if (!cache_works_here()) return;
  Tunables tunables = few_peers();
  tunables.registration_cache_entries = 2;
  tunables.registration_cache_bytes = 3 * kBytes;
  std::vector<std::unique_ptr<OwnMemory>> memories;
  for (std::uint64_t i = 0; i < 5; ++i) {
    memories.push_back(std::make_unique<OwnMemory>((1 + i % 3) * kBytes));
    memories.back()->fill(i);
  }
  FakePair pair(0, tunables);
  // The thread that registers may wait for a processor.
  const HangLimit limit;
  const auto is_evicted = [&] { return pair.a->stats().registrations_evicted > 0; };
  for (int round = 0; round < 20 || !(is_evicted() || limit.is_over()); ++round) {
    for (const auto& memory : memories) {
      pair.exchange(memory->bytes());
      CHECK(pair.fabric.registrations() <= pair.own + 2 * kNics);
      CHECK(pair.a->stats().registered_bytes <= 3 * kBytes);
    }
  }
  CHECK(is_evicted());
}

TEST_CASE("CachedSends__what_the_device_refuses_is_copied") {
  if (!cache_works_here()) return;
  OwnMemory memory(kBytes);
  memory.fill(1);
  FakePair pair(0);
  pair.fabric.fail(test::fake::Call::reg_mr, ENOMEM, 0, 2 * kNics);
  pair.exchange(memory.bytes());
  REQUIRE(pair.becomes([&] { return pair.a->stats().registrations_refused == 1; }));
  const auto [in_place, copied] = pair.payload_of(memory.bytes());
  CHECK(in_place == 0);
  CHECK(copied >= kBytes);
  CHECK(pair.a->stats().registered_bytes == 0);
  CHECK(pair.fabric.registrations() == pair.own);
}

TEST_CASE("CachedSends__one_NIC_that_refuses_does_not_stop_the_other") {
  if (!cache_works_here()) return;
  OwnMemory memory(4 * kBytes);
  memory.fill(1);
  FakePair pair(0);
  pair.fabric.fail(test::fake::Call::reg_mr, EIO);
  REQUIRE(pair.is_cached(memory.bytes()));
  CHECK(pair.fabric.registrations() == pair.own + kNics - 1);
  const auto [in_place, copied] = pair.payload_of(memory.bytes());
  CHECK(in_place > 0);
  CHECK(in_place + copied >= 4 * kBytes);
}

TEST_CASE("CachedSends__the_cache_is_off_where_it_is_told_or_has_to_be") {
  OwnMemory memory(kBytes);
  memory.fill(1);
  Tunables tunables = few_peers();
  bool forks_are_safe = true;
  SECTION("bytes") { tunables.registration_cache_bytes = 0; }
  SECTION("entries") { tunables.registration_cache_entries = 0; }
  SECTION("forks") { forks_are_safe = false; }
  FakePair pair(0, tunables);
  pair.a.reset();
  pair.b.reset();
  pair.fabric.copy_on_fork(forks_are_safe);
  pair.open();
  for (int round = 0; round < 5; ++round) {
    const auto [in_place, copied] = pair.payload_of(memory.bytes());
    CHECK(in_place == 0);
    CHECK(copied >= kBytes);
  }
  CHECK(pair.a->stats().registration_misses == 0);
  pair.fabric.copy_on_fork(true);
}

TEST_CASE("CachedSends__memory_of_files_and_shared_memory_are_copied") {
  if (!cache_works_here()) return;
  FakePair pair(0);
  void* const shared =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(shared != MAP_FAILED);
  const std::span<const std::byte> bytes(static_cast<const std::byte*>(shared), kBytes);
  pair.exchange(bytes);
  REQUIRE(pair.becomes([&] { return pair.a->stats().registrations_refused == 1; }));
  CHECK(pair.payload_of(bytes).first == 0);
  REQUIRE(::munmap(shared, kBytes) == 0);
}

TEST_CASE("CachedSends__threads_that_map_send_and_unmap") {
  if (!cache_works_here()) return;
  FakePair pair(1);
  constexpr int kRounds = 60;
  std::thread receiver([&] {
    std::vector<std::byte> received(kBytes);
    for (int round = 0; round < 2 * kRounds; ++round) {
      OperationId operation = kNoOperation;
      if (pair.b->receive({.ignore = kAnyTag, .data = received.data(), .bytes = kBytes},
                          operation) != Status::ok) {
        std::abort();
      }
      Completion completion;
      while (pair.b->wait(std::span(&completion, 1), 1'000'000) == 0) {
      }
      // The tag is the seed of the message's bytes.
      if (received != pattern(kBytes, completion.tag)) std::abort();
    }
  });
  // Allocates and frees large blocks while the other threads send.
  std::atomic<bool> done{false};
  std::thread allocator([&] {
    while (!done) {
      const std::vector<std::byte> big(std::size_t{1} << 20);
      if (big[big.size() - 1] != std::byte{0}) std::abort();
    }
  });
  for (std::uint64_t round = 0; round < 2 * kRounds; round += 2) {
    OwnMemory memory(kBytes);
    std::vector<std::byte> heap = pattern(kBytes, round + 1);
    memory.fill(round);
    post_send(*pair.a, pair.b_of_a, round, memory.bytes());
    post_send(*pair.a, pair.b_of_a, round + 1, heap);
    // Only `a` takes turns here, since the other thread polls the completions of `b`.
    for (int i = 0; i < 2; ++i) CHECK(next_of(*pair.a, *pair.a).status == Status::ok);
  }
  done = true;
  allocator.join();
  receiver.join();
  CHECK(pair.a->stats().payload_bytes_in_place + pair.a->stats().payload_bytes_copied >=
        2 * kRounds * kBytes);
}

}  // namespace hawser::engine
