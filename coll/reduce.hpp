// SPDX-License-Identifier: Apache-2.0
// The reduction kernel: out[i] = left[i] op right[i].
#pragma once

#include <cstdint>

#include "coll/data_type.hpp"

namespace hawser::coll {

// `out` may be `left` or `right`; otherwise the three don't overlap. All must be aligned to the
// element's size. f16 and bf16 are computed in f32 and rounded to nearest even. Integers wrap. If
// an operand is NaN, min and max return one of the two operands (the left one).
void reduce(DataType type, ReduceOp op, void* out, const void* left, const void* right,
            std::uint64_t count) noexcept;

// The same with instructions that any processor of the build's baseline has. `reduce` takes faster
// ones where they are.
void reduce_on_any(DataType type, ReduceOp op, void* out, const void* left, const void* right,
                   std::uint64_t count) noexcept;

}  // namespace hawser::coll
