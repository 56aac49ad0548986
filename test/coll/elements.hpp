// SPDX-License-Identifier: Apache-2.0
// Decodes and encodes elements one by one, independently of coll/'s conversions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hawser/collectives.hpp"
#include "proto/base/random.hpp"

namespace hawser::test {

// The exact value of an element of a floating-point type.
[[nodiscard]] double decode_float(coll::DataType type, const std::byte* element);
[[nodiscard]] std::int64_t decode_integer(coll::DataType type, const std::byte* element);
// `value` must be representable.
void encode_float(coll::DataType type, double value, std::byte* element);
void encode_integer(coll::DataType type, std::int64_t value, std::byte* element);

[[nodiscard]] constexpr bool is_float(coll::DataType type) {
  using coll::DataType;
  return type != DataType::i32 && type != DataType::i64 && type != DataType::i8 &&
         type != DataType::u8;
}

// The caller's function in the tests: the greater of two.
void take_greater(void* context, void* out, const void* left, const void* right,
                  std::uint64_t count, coll::DataType type);
[[nodiscard]] coll::Reduction reduction_of(coll::ReduceOp op);

// Elements whose reduction over up to 64 ranks is exact and the same in every order.
[[nodiscard]] std::vector<std::byte> exact_elements(coll::DataType type, coll::ReduceOp op,
                                                    std::uint64_t count, std::uint32_t rank,
                                                    proto::Random& random);

// The index of the first element of `result` that is not the reduction of those at the same index
// of `inputs`; `count` if there is none.
[[nodiscard]] std::uint64_t first_wrong(coll::DataType type, coll::ReduceOp op,
                                        const std::vector<const std::byte*>& inputs,
                                        const std::byte* result, std::uint64_t count);

}  // namespace hawser::test
