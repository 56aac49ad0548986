// SPDX-License-Identifier: Apache-2.0
// The element types and operations of reductions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hawser::coll {

enum class DataType : std::uint8_t { f32, f64, f16, bf16, i32, i64 };
inline constexpr std::size_t kDataTypes = 6;

enum class ReduceOp : std::uint8_t { sum, prod, min, max };
inline constexpr std::size_t kReduceOps = 4;

[[nodiscard]] constexpr std::size_t size_of(DataType type) noexcept {
  switch (type) {
    case DataType::f16:
    case DataType::bf16: return 2;
    case DataType::f32:
    case DataType::i32: return 4;
    case DataType::f64:
    case DataType::i64: return 8;
  }
  return 0;
}

[[nodiscard]] constexpr std::string_view to_string(DataType type) noexcept {
  constexpr std::string_view names[kDataTypes] = {"f32", "f64", "f16", "bf16", "i32", "i64"};
  return names[static_cast<std::size_t>(type)];
}

[[nodiscard]] constexpr std::string_view to_string(ReduceOp op) noexcept {
  constexpr std::string_view names[kReduceOps] = {"sum", "prod", "min", "max"};
  return names[static_cast<std::size_t>(op)];
}

}  // namespace hawser::coll
