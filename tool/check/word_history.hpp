// SPDX-License-Identifier: Apache-2.0
// The atomics workload: which operations each rank makes, and the check of what they fetched.
//
// A word has three counts. Each operation that takes effect adds one to one of them:
//
//   | 63..44: swaps | 43..24: plain adds | 23..0: fetching adds |
//
// Every effect thus changes the word to a value that it never had. All fetched values of a word
// must lie on one path from 0 to the final value. Operations that fetch show their place on it. An
// add that fetches nothing may stand anywhere.
//
// This code shares nothing with the engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tool/check/pattern.hpp"

namespace hawser::tool {

enum class WordAction : std::uint8_t { fetching_add, plain_add, compare_and_swap };

struct WordStep {
  std::uint32_t word = 0;
  WordAction action = WordAction::fetching_add;
};

// The findings of one operation.
struct FetchRecord {
  std::uint64_t fetched = 0;  // of a plain add: 0
  std::uint64_t compare = 0;  // of a compare_and_swap
};

// The change that an action makes, if it takes effect.
[[nodiscard]] std::uint64_t unit_of(WordAction action);

// The operations of one rank on the words of one member, in order; the same on every rank.
[[nodiscard]] std::vector<WordStep> draw_steps(const PatternKey& key, std::uint32_t initiator,
                                               std::uint32_t target, std::uint32_t words,
                                               std::uint64_t count);

// Gathers the operations on one word, and checks that they have an order.
class WordHistory {
 public:
  void add(WordAction action, const FetchRecord& record);
  // How many operations contradict an order that begins with 0 and ends with `last`. A wrong last
  // value counts as one.
  [[nodiscard]] std::uint64_t contradictions(std::uint64_t last);

 private:
  struct Effect {
    std::uint64_t before = 0;
    std::uint64_t unit = 0;
  };

  std::vector<Effect> effects_;        // of operations that fetched
  std::vector<std::uint64_t> missed_;  // fetched by swaps that found another value
  std::uint64_t plain_adds_ = 0;
};

// The words of one member after a task, against the records of all ranks, which are `count` for
// each rank in order. Mismatch::first is a word.
[[nodiscard]] std::optional<Mismatch> verify_words(const PatternKey& key, std::uint32_t target,
                                                   std::span<const std::uint64_t> words,
                                                   std::span<const FetchRecord> records,
                                                   std::uint64_t count);

}  // namespace hawser::tool
