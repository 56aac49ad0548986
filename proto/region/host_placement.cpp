// SPDX-License-Identifier: Apache-2.0
#include "proto/region/host_placement.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <type_traits>

namespace hawser::proto {

namespace {

// Replaces the word by a function of it, and returns the word as it was.
template <class Word, class Function>
Word replace(std::atomic_ref<Word> word, Function function) {
  Word before = word.load(std::memory_order_relaxed);
  while (!word.compare_exchange_weak(before, function(before), std::memory_order_acq_rel,
                                     std::memory_order_relaxed)) {
  }
  return before;
}

template <class Word>
Word swap_if_equal(std::atomic_ref<Word> word, Word compare, Word operand) {
  word.compare_exchange_strong(compare, operand, std::memory_order_acq_rel,
                               std::memory_order_acquire);
  return compare;
}

template <class Word>
Word execute_on(std::atomic_ref<Word> word, const WordOperation& what) {
  using Signed = std::make_signed_t<Word>;
  constexpr auto kOrder = std::memory_order_acq_rel;
  const auto operand = static_cast<Word>(what.operand);
  switch (what.operation) {
    case AtomicOperation::load: return word.load(std::memory_order_acquire);
    case AtomicOperation::store:
    case AtomicOperation::swap: return word.exchange(operand, kOrder);
    case AtomicOperation::compare_and_swap:
      return swap_if_equal(word, static_cast<Word>(what.compare), operand);
    case AtomicOperation::add: return word.fetch_add(operand, kOrder);
    case AtomicOperation::bit_and: return word.fetch_and(operand, kOrder);
    case AtomicOperation::bit_or: return word.fetch_or(operand, kOrder);
    case AtomicOperation::bit_xor: return word.fetch_xor(operand, kOrder);
    case AtomicOperation::min_unsigned:
      return replace(word, [=](Word now) { return std::min(now, operand); });
    case AtomicOperation::max_unsigned:
      return replace(word, [=](Word now) { return std::max(now, operand); });
    case AtomicOperation::min_signed:
      return replace(word, [=](Word now) {
        return static_cast<Signed>(operand) < static_cast<Signed>(now) ? operand : now;
      });
    case AtomicOperation::max_signed:
      return replace(word, [=](Word now) {
        return static_cast<Signed>(now) < static_cast<Signed>(operand) ? operand : now;
      });
  }
  return 0;
}

template <class Word>
Word execute_at(std::byte* at, const WordOperation& what) {
  return execute_on(std::atomic_ref<Word>(*reinterpret_cast<Word*>(at)), what);
}

}  // namespace

void HostPlacement::place(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

// Nothing is left to do: each operation on a word releases what this thread wrote before, and so
// does the queue by which notices reach another thread.
void HostPlacement::make_visible() {}

bool HostPlacement::execute(std::byte* word, const WordOperation& operation,
                            std::uint64_t& before) {
  before = operation.width == 8 ? execute_at<std::uint64_t>(word, operation)
                                : execute_at<std::uint32_t>(word, operation);
  return true;
}

}  // namespace hawser::proto
