#include "engine/packet_pool.hpp"

#include <pthread.h>
#include <rte_config.h>
#include <rte_lcore.h>
#include <sched.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "engine/eal.hpp"
#include "hawser/engine.hpp"

namespace hawser::engine {
namespace {

using proto::PacketBuffer;

TEST_CASE("ensure_eal__keeps_the_affinity_of_the_calling_thread") {
  // Of a thread that is not the main one, and with a set of its own: EAL pins whoever calls first.
  std::thread([] {
    cpu_set_t before;
    CPU_ZERO(&before);
    REQUIRE(pthread_getaffinity_np(pthread_self(), sizeof before, &before) == 0);
    ensure_eal();
    cpu_set_t after;
    CPU_ZERO(&after);
    REQUIRE(pthread_getaffinity_np(pthread_self(), sizeof after, &after) == 0);
    CHECK(CPU_EQUAL(&before, &after));
    CHECK(rte_lcore_count() == 1);
  }).join();
}

TEST_CASE("ensure_eal__may_be_called_by_all_threads_at_once") {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(ensure_eal);
  for (std::thread& thread : threads) thread.join();
  ensure_eal();
  CHECK(rte_lcore_count() == 1);
}

TEST_CASE("MempoolPacketPool__buffers_are_distinct_aligned_and_inside_memory") {
  MempoolPacketPool pool(300);
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

TEST_CASE("MempoolPacketPool__gives_the_buffer_used_last") {
  MempoolPacketPool pool(1024);
  PacketBuffer* first = nullptr;
  REQUIRE(pool.take(std::span(&first, 1)) == 1);
  pool.give(std::span(&first, 1));
  PacketBuffer* second = nullptr;
  REQUIRE(pool.take(std::span(&second, 1)) == 1);
  CHECK(second == first);
  pool.give(std::span(&second, 1));
}

// Random takes and gives beside a set of what is outside. Sizes around the cache's, so that it is
// filled from, and flushed to, the ring behind it.
TEST_CASE("MempoolPacketPool__agrees_with_a_model") {
  const auto seed = GENERATE(1u, 2u, 3u);
  CAPTURE(seed);
  std::mt19937 random(seed);
  MempoolPacketPool pool(1500);
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

TEST_CASE("MempoolPacketPool__too_large_for_memory_is_one_sentence") {
  try {
    MempoolPacketPool pool(std::size_t{1} << 31);
    FAIL("no error");
  } catch (const Error& error) {
    const std::string text = error.what();
    CHECK_THAT(text, Catch::Matchers::Contains("2147483648 packet buffers"));
    CHECK_THAT(text, Catch::Matchers::Contains("packet_buffers"));
    CHECK(std::count(text.begin(), text.end(), '\n') == 0);
  }
}

}  // namespace
}  // namespace hawser::engine
