// SPDX-License-Identifier: Apache-2.0
// The check of atomics against words on which a plain loop acts, in a random order. Then the same
// with one mistake, which the check must find.
#include "tool/check/word_history.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

namespace hawser::tool {
namespace {

constexpr PatternKey kKey{5, 1, 2, 0};
constexpr std::uint32_t kRanks = 4;
constexpr std::uint32_t kTarget = 2;
constexpr std::uint64_t kCount = 400;

enum class Mistake { none, executed_twice, not_executed, stale_fetch, swapped_unequal };

// All ranks act on the words of one of them.
struct World {
  std::vector<std::uint64_t> words;
  std::vector<FetchRecord> records;
  bool was_made = false;  // the mistake

  World(std::uint32_t word_count, std::uint64_t seed, Mistake mistake)
      : words(word_count), records(kRanks * kCount) {
    std::vector<std::vector<WordStep>> steps;
    std::vector<std::vector<std::uint64_t>> seen(kRanks, std::vector<std::uint64_t>(word_count));
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      steps.push_back(draw_steps(kKey, rank, kTarget, word_count, kCount));
    }
    std::vector<std::uint32_t> order;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) order.insert(order.end(), kCount, rank);
    std::shuffle(order.begin(), order.end(), std::mt19937_64(seed));
    std::vector<std::uint64_t> next(kRanks);
    for (std::size_t i = 0; i < order.size(); ++i) {
      const std::uint32_t rank = order[i];
      const std::uint64_t at = next[rank]++;
      const WordStep& step = steps[rank][at];
      const bool is_late = i > order.size() / 2;  // when a stale value differs
      act(step, records[rank * kCount + at], seen[rank][step.word],
          is_late && !was_made ? mistake : Mistake::none);
    }
  }

  void act(const WordStep& step, FetchRecord& record, std::uint64_t& seen, Mistake mistake) {
    std::uint64_t& word = words[step.word];
    const std::uint64_t unit = unit_of(step.action);
    const std::uint64_t before = word;
    bool takes_effect = true;
    if (step.action == WordAction::compare_and_swap) {
      record.compare = seen;
      takes_effect = before == seen;
    }
    if (takes_effect) word += unit;
    if (step.action != WordAction::plain_add) record.fetched = seen = before;
    if (mistake == Mistake::executed_twice && takes_effect) {
      word += unit;
    } else if (mistake == Mistake::not_executed && takes_effect) {
      word -= unit;
    } else if (mistake == Mistake::stale_fetch && step.action == WordAction::fetching_add &&
               before != 0) {
      record.fetched = 0;
    } else if (mistake == Mistake::swapped_unequal && !takes_effect) {
      word += unit;
    } else {
      return;
    }
    was_made = mistake != Mistake::none;
  }

  [[nodiscard]] std::optional<Mismatch> verify() const {
    return verify_words(kKey, kTarget, words, records, kCount);
  }
};

TEST_CASE("word_history: any order of all operations is right") {
  for (const std::uint32_t words : {1u, 3u, 64u}) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      INFO("seed " << seed << ", " << words << " words");
      const World world(words, seed, Mistake::none);
      CHECK_FALSE(world.verify());
    }
  }
}

TEST_CASE("word_history: each mistake shows, in whatever order") {
  for (const Mistake mistake : {Mistake::executed_twice, Mistake::not_executed,
                                Mistake::stale_fetch, Mistake::swapped_unequal}) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      INFO("seed " << seed << ", mistake " << static_cast<int>(mistake));
      const World world(3, seed, mistake);
      REQUIRE(world.was_made);
      CHECK(world.verify());
    }
  }
}

TEST_CASE("word_history: two fetches of one value, and a last value that is wrong") {
  WordHistory twice;
  twice.add(WordAction::fetching_add, {0, 0});
  twice.add(WordAction::fetching_add, {0, 0});
  CHECK(twice.contradictions(2) > 0);
  WordHistory last;
  last.add(WordAction::fetching_add, {0, 0});
  last.add(WordAction::plain_add, {});
  CHECK(last.contradictions(1 + unit_of(WordAction::plain_add)) == 0);
  CHECK(last.contradictions(1) == 1);
  WordHistory missed;
  missed.add(WordAction::fetching_add, {0, 0});
  missed.add(WordAction::compare_and_swap, {1, 7});
  CHECK(missed.contradictions(1) == 0);
  missed.add(WordAction::compare_and_swap, {2, 7});  // a value that the word never had
  CHECK(missed.contradictions(1) == 1);
}

TEST_CASE("word_history: operations are of all kinds, on all words, others for each pair") {
  const auto steps = draw_steps(kKey, 0, 1, 7, 1000);
  REQUIRE(steps.size() == 1000);
  for (const WordAction action :
       {WordAction::fetching_add, WordAction::plain_add, WordAction::compare_and_swap}) {
    CHECK(std::ranges::count(steps, action, &WordStep::action) > 100);
  }
  for (std::uint32_t word = 0; word < 7; ++word) {
    CHECK(std::ranges::count(steps, word, &WordStep::word) > 50);
  }
  const auto others = draw_steps(kKey, 1, 0, 7, 1000);
  const auto is_same = [](const WordStep& a, const WordStep& b) {
    return a.word == b.word && a.action == b.action;
  };
  CHECK_FALSE(std::ranges::equal(steps, others, is_same));
}

}  // namespace
}  // namespace hawser::tool
