// SPDX-License-Identifier: Apache-2.0
#include "engine/packet_pool.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "hawser/engine.hpp"
#include "test/engine/eal.hpp"

namespace hawser::engine {
namespace {

using proto::PacketBuffer;

template <class Pool>
void prepare() {
  if constexpr (std::is_same_v<Pool, MempoolPacketPool>) start_eal();
}

TEMPLATE_TEST_CASE("PacketPool__buffers_are_distinct_aligned_and_inside_memory", "",
                   StackPacketPool, MempoolPacketPool) {
  prepare<TestType>();
  TestType pool(300);
  CHECK(pool.capacity() == 300);
  CHECK(reinterpret_cast<std::uintptr_t>(pool.memory().data()) % 4096 == 0);
  std::vector<PacketBuffer*> taken(400);
  REQUIRE(pool.take(taken) == 300);
  taken.resize(300);
  const std::set<PacketBuffer*> distinct(taken.begin(), taken.end());
  CHECK(distinct.size() == 300);
  const std::byte* begin = pool.memory().data();
  const std::byte* previous_end = begin;
  for (PacketBuffer* buffer : distinct) {
    CHECK(reinterpret_cast<std::uintptr_t>(buffer) % alignof(PacketBuffer) == 0);
    CHECK(buffer->bytes >= previous_end);
    previous_end = buffer->bytes + sizeof(PacketBuffer);
    std::memset(buffer->bytes, 0xa5, sizeof(PacketBuffer));
  }
  CHECK(previous_end <= begin + pool.memory().size());
  PacketBuffer* one = nullptr;
  CHECK(pool.take(std::span(&one, 1)) == 0);
  pool.give(taken);
  CHECK(pool.in_use() == 0);
}

TEMPLATE_TEST_CASE("PacketPool__gives_the_buffer_used_last", "", StackPacketPool,
                   MempoolPacketPool) {
  prepare<TestType>();
  TestType pool(1024);
  PacketBuffer* first = nullptr;
  REQUIRE(pool.take(std::span(&first, 1)) == 1);
  pool.give(std::span(&first, 1));
  PacketBuffer* second = nullptr;
  REQUIRE(pool.take(std::span(&second, 1)) == 1);
  CHECK(second == first);
  pool.give(std::span(&second, 1));
}

// Takes and gives at random, and compares with a set of the buffers that are out. The amounts are
// around the size of the cache, so that it is filled from, and flushed to, the ring behind it.
TEMPLATE_TEST_CASE("PacketPool__agrees_with_a_model", "", StackPacketPool, MempoolPacketPool) {
  prepare<TestType>();
  const auto seed = GENERATE(1u, 2u, 3u);
  CAPTURE(seed);
  std::mt19937 random(seed);
  TestType pool(1500);
  std::set<PacketBuffer*> outside;
  for (int step = 0; step < 2000; ++step) {
    if (random() % 2 == 0) {
      std::vector<PacketBuffer*> buffers(random() % 700);
      const std::size_t free = pool.capacity() - outside.size();
      const std::size_t taken = pool.take(buffers);
      REQUIRE(taken == std::min(free, buffers.size()));
      for (std::size_t i = 0; i < taken; ++i) REQUIRE(outside.insert(buffers[i]).second);
    } else {
      std::vector<PacketBuffer*> buffers(outside.begin(), outside.end());
      std::shuffle(buffers.begin(), buffers.end(), random);
      buffers.resize(buffers.empty() ? 0 : random() % (buffers.size() + 1));
      for (PacketBuffer* buffer : buffers) outside.erase(buffer);
      pool.give(buffers);
    }
    REQUIRE(pool.in_use() == outside.size());
  }
  pool.give(std::vector<PacketBuffer*>(outside.begin(), outside.end()));
}

TEMPLATE_TEST_CASE("PacketPool__too_large_for_memory_is_one_sentence", "", StackPacketPool,
                   MempoolPacketPool) {
  prepare<TestType>();
  try {
    TestType pool(std::size_t{1} << 31);
    FAIL("no error");
  } catch (const Error& error) {
    const std::string text = error.what();
    CHECK_THAT(text, Catch::Matchers::Contains("2147483648 packet buffers"));
    CHECK_THAT(text, Catch::Matchers::Contains("packet_buffers"));
    CHECK(std::count(text.begin(), text.end(), '\n') == 0);
  }
}

// A pool costs the process no thread, no descriptor and no file.
TEST_CASE("PacketPool__takes_nothing_of_the_process_but_memory") {
  const auto count = [](const char* folder) {
    return std::distance(std::filesystem::directory_iterator(folder), {});
  };
  const auto threads = count("/proc/self/task");
  const auto descriptors = count("/proc/self/fd");
  const bool had_eal = MempoolPacketPool::is_possible();
  const auto pool = make_packet_pool(100);
  CHECK(MempoolPacketPool::is_possible() == had_eal);
  CHECK(count("/proc/self/task") == threads);
  CHECK(count("/proc/self/fd") == descriptors);
  CHECK(pool->capacity() == 100);
}

TEST_CASE("PacketPool__a_program_that_has_started_eal_gets_an_rte_mempool") {
  start_eal();
  const auto pool = make_packet_pool(100);
  CHECK(dynamic_cast<MempoolPacketPool*>(pool.get()) != nullptr);
}

}  // namespace
}  // namespace hawser::engine
