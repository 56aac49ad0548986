// SPDX-License-Identifier: Apache-2.0
// A workload of single collectives, each of several sizes and types, in place and not, as
// nccl-tests run them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tool/workload/model.hpp"

namespace hawser::tool {

struct Microbenchmark {
  std::vector<Operation> collectives;
  std::vector<std::uint64_t> sizes;  // bytes of a rank (model.hpp), ascending
  std::vector<DataType> types;       // of those that reduce; the others only move bytes
  std::uint32_t iterations = 20;
  std::uint32_t warmup = 5;  // iterations before those, which no figure includes

  // The tasks of one row: a collective of one size and type, in place or not.
  [[nodiscard]] std::uint64_t tasks_of_row() const { return std::uint64_t{warmup} + iterations; }
};

// "all_reduce,broadcast", or "all". Throws InputError, as the others do.
[[nodiscard]] std::vector<Operation> parse_collectives(std::string_view text);
// "FROM[:TO[:FACTOR]]" in bytes, with K, M and G for 2^10, 2^20 and 2^30.
[[nodiscard]] std::vector<std::uint64_t> parse_sizes(std::string_view text);
// "f32,bf16", or "all".
[[nodiscard]] std::vector<DataType> parse_types(std::string_view text);

// The step has all rows, one after the other, in the order of collectives, types and sizes. Sizes
// are rounded up to whole elements, and to a multiple of the ranks where ranks share a buffer.
// Throws InputError if the rows and iterations are too many.
[[nodiscard]] Workload microbenchmark_workload(const Microbenchmark& benchmark,
                                               std::uint32_t ranks);

}  // namespace hawser::tool
