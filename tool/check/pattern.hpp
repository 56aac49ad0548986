// SPDX-License-Identifier: Apache-2.0
// What goes into the buffers of a collective, and whether what came out is right.
//
// Nothing here is shared with coll/: inputs follow from (seed, step, collective, group, rank,
// place) alone, and so does the expected result, in closed form and at about the speed of memory.
//
// Sums. Rank r's element i is 1 + p(i) + c(r, i / 1024): p is pseudo-random per element, c per rank
// and block of 1024 elements. The sum over n ranks is n + n*p(i) + sum of c, so one hash an element
// and n a block give it. A rank missing or counted twice, another rank in its place, a block of
// another place, step, collective or group all change it. p and c have so many bits that every
// partial sum is a whole number that the type holds exactly: up to 2^24 in f32 and 2^8 in bf16, so
// that no order of adding may round.
//
// Bytes. What is only moved has pseudo-random bytes that depend on (sender, receiver) too.
#pragma once

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

// Where a result differs from what it must be.
struct Mismatch {
  std::uint64_t wrong = 0;  // elements (sums) or bytes (moves) that differ
  std::uint64_t first = 0;  // place of the first
  double expected = 0;
  double found = 0;
};

class SumPattern {
 public:
  // Ranks whose sum the type can hold exactly and still tell apart; more are refused by the caller.
  [[nodiscard]] static std::uint32_t max_ranks(DataType type);

  SumPattern(DataType type, std::uint32_t ranks);

  // Fills `out`, whole elements, with rank `rank`'s elements from `first` on.
  void fill(const PatternKey& key, std::uint32_t rank, std::uint64_t first,
            std::span<std::byte> out) const;
  // Compares every bit of `result` with the sum of ranks 0 to ranks-1, from element `first` on.
  [[nodiscard]] std::optional<Mismatch> verify(const PatternKey& key, std::uint64_t first,
                                               std::span<const std::byte> result) const;

 private:
  DataType type_;
  std::uint32_t ranks_;
  unsigned bits_;  // of p and of c
};

// The bytes from `first` on of what `sender` has for `receiver`; for what goes to
// all, `receiver` is kEveryone.
inline constexpr std::uint32_t kEveryone = ~std::uint32_t{0};
void fill_bytes(const PatternKey& key, std::uint32_t sender, std::uint32_t receiver,
                std::uint64_t first, std::span<std::byte> out);
[[nodiscard]] std::optional<Mismatch> verify_bytes(const PatternKey& key, std::uint32_t sender,
                                                   std::uint32_t receiver, std::uint64_t first,
                                                   std::span<const std::byte> result);

// Adds up findings of several ranges of one buffer, keeping the first.
void merge(std::optional<Mismatch>& into, const std::optional<Mismatch>& found);

}  // namespace hawser::tool
