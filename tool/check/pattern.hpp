// SPDX-License-Identifier: Apache-2.0
// The contents of a collective's buffers, and the check that its results are right.
//
// This code shares nothing with coll/. Inputs follow from (seed, step, collective, group, rank,
// place) alone. The expected result does too, in closed form and at about the speed of memory.
//
// Sums. Rank r's element i is 1 + p(i) + c(r, i / 1024): p is pseudo-random per element, c per rank
// and block of 1024 elements. The sum over n ranks is n + n*p(i) + sum of c, so one hash an element
// and n a block give it. A rank that is missing, counted twice or replaced by another changes the
// sum. A block of another place, step, collective or group changes it, too. A float type holds
// every partial sum exactly, as a whole number: p and c have just so many bits. The limit is 2^24
// in f32 and 2^8 in bf16, so no order of adding may round. The widest types, f64, i32 and i64, hold
// a constant multiple of these numbers, which takes all of their bits. Integers wrap, in any order
// alike.
//
// If a float type can't hold the sum of so many ranks, each element has summands 1 + p(i) of some
// ranks, which take turns, and 0 of all others. E5M2 is exact up to 8: it gets the sum of 4 ranks.
//
// Bytes. Data that is only moved is pseudo-random bytes, which depend on (sender, receiver) too.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "tool/workload/model.hpp"

namespace hawser::tool {

// Names the contents of the buffers of one collective of one group.
struct PatternKey {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint32_t collective = 0;
  std::uint32_t group = 0;  // first rank of the group, in the world

  friend bool operator==(const PatternKey&, const PatternKey&) = default;
};

// The difference between a result and the expected one.
struct Mismatch {
  std::uint64_t wrong = 0;  // elements (sums) or bytes (moves) that differ
  std::uint64_t first = 0;  // place of the first
  std::string expected;     // there, as exact as its type
  std::string found;
};

class SumPattern {
 public:
  static constexpr std::size_t kBlock = 1024;  // elements
  // The whole numbers of a block's elements.
  using Wholes = std::array<std::uint32_t, kBlock>;

  SumPattern(DataType type, std::uint32_t ranks);

  // Fills `out`, whole elements, with rank `rank`'s elements from `first` on.
  void fill(const PatternKey& key, std::uint32_t rank, std::uint64_t first,
            std::span<std::byte> out) const;
  // Compares every bit of `result` with the sum of ranks 0 to ranks-1, from element `first` on.
  [[nodiscard]] std::optional<Mismatch> verify(const PatternKey& key, std::uint64_t first,
                                               std::span<const std::byte> result) const;
  // Compares every bit with what fill() wrote.
  [[nodiscard]] std::optional<Mismatch> verify_filled(const PatternKey& key, std::uint32_t rank,
                                                      std::uint64_t first,
                                                      std::span<const std::byte> input) const;

 private:
  // The elements of a rank, and those of the sum.
  void put_filled(const PatternKey& key, std::uint32_t rank, std::uint64_t block,
                  std::uint32_t begin, std::uint32_t n, Wholes& wholes) const;
  void put_sums(const PatternKey& key, std::uint64_t block, std::uint32_t begin, std::uint32_t n,
                Wholes& wholes) const;
  template <typename Put>
  [[nodiscard]] std::optional<Mismatch> compare_with(std::uint64_t first,
                                                     std::span<const std::byte> found,
                                                     Put put) const;

  DataType type_;
  std::uint32_t ranks_;
  std::uint32_t in_turn_ = 0;  // ranks that have summands for an element; 0: all have
  unsigned bits_;              // of p and of c
};

// The bytes from `first` on of what `sender` has for `receiver`; `receiver` is kEveryone for data
// that goes to all.
inline constexpr std::uint32_t kEveryone = ~std::uint32_t{0};
void fill_bytes(const PatternKey& key, std::uint32_t sender, std::uint32_t receiver,
                std::uint64_t first, std::span<std::byte> out);
[[nodiscard]] std::optional<Mismatch> verify_bytes(const PatternKey& key, std::uint32_t sender,
                                                   std::uint32_t receiver, std::uint64_t first,
                                                   std::span<const std::byte> result);

// Adds up the findings of several ranges of one buffer, keeping the first.
void merge(std::optional<Mismatch>& into, const std::optional<Mismatch>& found);

}  // namespace hawser::tool
