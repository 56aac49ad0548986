// SPDX-License-Identifier: Apache-2.0
#include "engine/word_ring.hpp"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>
#include <deque>
#include <random>
#include <thread>
#include <vector>

namespace hawser::engine {
namespace {

// Compares sequences of operations with a deque. Small capacities reach both ends all the time.
TEST_CASE("WordRing__agrees_with_a_deque") {
  const auto capacity = GENERATE(std::size_t{1}, std::size_t{2}, std::size_t{7}, std::size_t{64});
  const auto consumers = GENERATE(WordRing::Consumers::one, WordRing::Consumers::many);
  CAPTURE(capacity);
  std::mt19937_64 random(capacity);
  WordRing ring(capacity, consumers);
  std::deque<std::uint64_t> model;
  for (int step = 0; step < 20000; ++step) {
    if (random() % 2 == 0) {
      std::vector<std::uint64_t> words(random() % (capacity + 2));
      for (std::uint64_t& word : words) word = random();
      const bool fits = model.size() + words.size() <= capacity;
      if (words.empty() || (!fits && consumers == WordRing::Consumers::many)) continue;
      REQUIRE(ring.push(words) == fits);
      if (fits) model.insert(model.end(), words.begin(), words.end());
    } else {
      std::vector<std::uint64_t> words(random() % (capacity + 2));
      const std::size_t popped = ring.pop(words);
      const std::size_t most =
          consumers == WordRing::Consumers::one ? capacity : std::max<std::size_t>(1, capacity / 2);
      REQUIRE(popped == std::min({words.size(), model.size(), most}));
      for (std::size_t i = 0; i < popped; ++i) {
        REQUIRE(words[i] == model.front());
        model.pop_front();
      }
    }
    REQUIRE(ring.empty() == model.empty());
  }
}

// Under contention no word is lost or doubled, and each producer's words stay in order. The
// consumer sees what a producer wrote before pushing (the thread sanitizer checks that too).
TEST_CASE("WordRing__many_producers_one_consumer") {
  constexpr std::size_t kProducers = 3;
  constexpr std::uint64_t kEach = 20000;
  WordRing ring(256, WordRing::Consumers::one);
  std::vector<std::vector<std::uint64_t>> written(kProducers, std::vector<std::uint64_t>(kEach));
  std::vector<std::thread> producers;
  for (std::size_t p = 0; p < kProducers; ++p) {
    producers.emplace_back([&, p] {
      for (std::uint64_t i = 0; i < kEach; ++i) {
        written[p][i] = i * 3 + p;
        while (!ring.push(p << 32 | i)) std::this_thread::yield();
      }
    });
  }
  std::vector<std::uint64_t> next(kProducers);
  std::uint64_t total = 0;
  while (total < kProducers * kEach) {
    std::uint64_t words[32];
    const std::size_t popped = ring.pop(words);
    if (popped == 0) std::this_thread::yield();
    for (std::size_t k = 0; k < popped; ++k) {
      const std::size_t p = words[k] >> 32;
      const std::uint64_t i = words[k] & 0xffffffffu;
      REQUIRE(i == next[p]++);
      REQUIRE(written[p][i] == i * 3 + p);
    }
    total += popped;
  }
  for (std::thread& producer : producers) producer.join();
  CHECK(ring.empty());
}

// The ring holds free indices: no two threads ever hold the same index.
TEST_CASE("WordRing__many_producers_many_consumers_exchange_tokens") {
  constexpr std::size_t kTokens = 16;
  WordRing ring(kTokens, WordRing::Consumers::many);
  std::vector<int> held(kTokens, 0);  // not atomic: an entry belongs to the thread with its index
  for (std::uint64_t token = 0; token < kTokens; ++token) REQUIRE(ring.push(token));
  std::atomic<bool> wrong{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20000;) {
        std::uint64_t token = 0;
        if (ring.pop(std::span(&token, 1)) == 0) {
          std::this_thread::yield();
          continue;
        }
        if (held[token]++ != 0) wrong = true;
        --held[token];
        if (!ring.push(token)) wrong = true;
        ++i;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_FALSE(wrong);
  std::vector<std::uint64_t> left(kTokens + 1);
  CHECK(ring.pop(left) == kTokens / 2);
  CHECK(ring.pop(left) == kTokens / 2);
  CHECK(ring.empty());
}

}  // namespace
}  // namespace hawser::engine
