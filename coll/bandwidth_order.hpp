// SPDX-License-Identifier: Apache-2.0
// The ranks in the order of their bandwidths, and the division of an all-reduce among them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "coll/execution.hpp"
#include "coll/mix.hpp"
#include "hawser/collectives.hpp"

namespace hawser::coll {

struct BandwidthOrder {
  std::vector<Bandwidth> by_rank;
  std::vector<Rank> ranks;  // the slowest first, and of equal ones that with the lower rank
  std::vector<Bandwidth> ascending;  // of each of them
  Rank own_place = 0;
  std::uint64_t digest = 0;

  // Takes all memory that `arrange` needs.
  void reserve(Rank count);
  void arrange(std::span<const Bandwidth> bandwidths, Rank own);
};

// Whether these bandwidths are worth a division.
[[nodiscard]] bool are_unlike(std::span<const Bandwidth> by_rank) noexcept;

struct AllReduceArguments {
  std::uint64_t count = 0;
  DataType type = DataType::f32;
  Reduction reduction = ReduceOp::sum;
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
};

struct DividedPlan {
  AnyPlan plan;
  std::uint32_t window = 1;  // of each stream
};

// Requires a pipeline of at least 2. The plan refers to the order.
[[nodiscard]] DividedPlan divide(const AllReduceArguments& arguments, const BandwidthOrder& order,
                                 const CommunicatorOptions& options) noexcept;

}  // namespace hawser::coll
