// SPDX-License-Identifier: Apache-2.0
#include "tool/check/word_history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace hawser::tool {
namespace {

constexpr unsigned kPlainShift = 24;
constexpr unsigned kSwapShift = 44;
constexpr std::uint64_t kFetchMask = (std::uint64_t{1} << kPlainShift) - 1;
constexpr std::uint64_t kPlainMask = (std::uint64_t{1} << (kSwapShift - kPlainShift)) - 1;

std::uint64_t fetching_adds(std::uint64_t word) { return word & kFetchMask; }
std::uint64_t plain_adds(std::uint64_t word) { return (word >> kPlainShift) & kPlainMask; }
std::uint64_t swaps(std::uint64_t word) { return word >> kSwapShift; }

// The length of the path to a value, plain adds left out.
std::uint64_t place_of(std::uint64_t word) { return fetching_adds(word) + swaps(word); }

// The actions of eight operations.
constexpr std::array<WordAction, 8> kMix{
    WordAction::fetching_add,     WordAction::fetching_add,     WordAction::fetching_add,
    WordAction::fetching_add,     WordAction::plain_add,        WordAction::plain_add,
    WordAction::compare_and_swap, WordAction::compare_and_swap,
};
constexpr std::size_t kDrawnBytes = 4;  // of an operation

}  // namespace

std::uint64_t unit_of(WordAction action) {
  switch (action) {
    case WordAction::fetching_add: return 1;
    case WordAction::plain_add: return std::uint64_t{1} << kPlainShift;
    case WordAction::compare_and_swap: return std::uint64_t{1} << kSwapShift;
  }
  return 0;
}

std::vector<WordStep> draw_steps(const PatternKey& key, std::uint32_t initiator,
                                 std::uint32_t target, std::uint32_t words, std::uint64_t count) {
  std::vector<std::byte> drawn(count * kDrawnBytes);
  fill_bytes(key, initiator, target, 0, drawn);
  const auto byte = [&](std::size_t place) { return std::to_integer<std::uint32_t>(drawn[place]); };
  std::vector<WordStep> steps;
  steps.reserve(count);
  for (std::size_t at = 0; at < drawn.size(); at += kDrawnBytes) {
    const std::uint32_t word = byte(at) | byte(at + 1) << 8 | byte(at + 2) << 16;
    steps.push_back({word % words, kMix[byte(at + 3) % kMix.size()]});
  }
  return steps;
}

void WordHistory::add(WordAction action, const FetchRecord& record) {
  if (action == WordAction::plain_add) {
    ++plain_adds_;
  } else if (action == WordAction::compare_and_swap && record.fetched != record.compare) {
    missed_.push_back(record.fetched);
  } else {
    effects_.push_back({record.fetched, unit_of(action)});
  }
}

std::uint64_t WordHistory::contradictions(std::uint64_t last) {
  std::sort(effects_.begin(), effects_.end(), [](const Effect& a, const Effect& b) {
    return place_of(a.before) < place_of(b.before);
  });
  // Every effect begins where the one before it ended, but for plain adds between them.
  std::uint64_t wrong = 0;
  std::uint64_t least = 0;
  std::vector<std::uint64_t> path;  // before each effect, and at the end
  for (const Effect& effect : effects_) {
    const bool follows = fetching_adds(effect.before) == fetching_adds(least) &&
                         swaps(effect.before) == swaps(least) &&
                         plain_adds(effect.before) >= plain_adds(least);
    wrong += !follows;
    path.push_back(effect.before);
    least = effect.before + effect.unit;
  }
  path.push_back(last);
  const bool ends = fetching_adds(last) == fetching_adds(least) && swaps(last) == swaps(least) &&
                    plain_adds(last) == plain_adds_ && plain_adds(least) <= plain_adds_;
  wrong += !ends;
  for (const std::uint64_t seen : missed_) {
    const std::uint64_t place = place_of(seen);
    if (place >= path.size()) {
      ++wrong;
      continue;
    }
    const std::uint64_t from = place == 0 ? 0 : plain_adds(path[place - 1]);
    const std::uint64_t at = path[place];
    const bool is_on_path = fetching_adds(seen) == fetching_adds(at) && swaps(seen) == swaps(at) &&
                            plain_adds(seen) >= from && plain_adds(seen) <= plain_adds(at);
    wrong += !is_on_path;
  }
  return wrong;
}

std::optional<Mismatch> verify_words(const PatternKey& key, std::uint32_t target,
                                     std::span<const std::uint64_t> words,
                                     std::span<const FetchRecord> records, std::uint64_t count) {
  std::vector<WordHistory> histories(words.size());
  std::vector<std::uint64_t> expected(words.size());
  for (std::uint32_t initiator = 0; initiator < records.size() / count; ++initiator) {
    const auto steps =
        draw_steps(key, initiator, target, static_cast<std::uint32_t>(words.size()), count);
    for (std::uint64_t i = 0; i < count; ++i) {
      const WordStep& step = steps[i];
      const FetchRecord& record = records[initiator * count + i];
      histories[step.word].add(step.action, record);
      const bool missed =
          step.action == WordAction::compare_and_swap && record.fetched != record.compare;
      if (!missed) expected[step.word] += unit_of(step.action);
    }
  }
  std::optional<Mismatch> mismatch;
  for (std::size_t word = 0; word < words.size(); ++word) {
    const std::uint64_t wrong = histories[word].contradictions(words[word]);
    if (wrong == 0) continue;
    merge(mismatch,
          Mismatch{wrong, word, fmt::to_string(expected[word]), fmt::to_string(words[word])});
  }
  return mismatch;
}

}  // namespace hawser::tool
