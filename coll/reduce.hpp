// SPDX-License-Identifier: Apache-2.0
// The reduction kernels: out[i] = left[i] op right[i], and what an average needs at its end.
#pragma once

#include <cstdint>

#include "hawser/collectives.hpp"

namespace hawser::coll {

// True if the type has the operation, and the caller's function is there where it is wanted.
[[nodiscard]] bool is_possible(DataType type, const Reduction& reduction) noexcept;

// Requires is_possible. `out` may be `left` or `right`; otherwise the three don't overlap. All must
// be aligned to the element's size. Floats narrower than f32 are computed in f32 and rounded to
// nearest even. Integers wrap. If an operand is NaN, min and max return one of the two operands
// (the left one). An average is a sum until `finish`.
void reduce(DataType type, const Reduction& reduction, void* out, const void* left,
            const void* right, std::uint64_t count) noexcept;

// The same with instructions that any processor of the build's baseline has. `reduce` takes faster
// ones where they are.
void reduce_on_any(DataType type, const Reduction& reduction, void* out, const void* left,
                   const void* right, std::uint64_t count) noexcept;

// Completes elements to which all ranks have contributed: an average is divided by their number.
void finish(DataType type, const Reduction& reduction, void* data, std::uint64_t count,
            Rank ranks) noexcept;

}  // namespace hawser::coll
