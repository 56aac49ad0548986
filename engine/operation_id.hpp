// SPDX-License-Identifier: Apache-2.0
// An OperationId is generation << 32 | index. Indices are dense, and each use of an index has a new
// generation.
#pragma once

#include <cstdint>

#include "hawser/types.hpp"

namespace hawser::engine {

[[nodiscard]] constexpr OperationId operation_id(std::uint32_t index, std::uint32_t generation) {
  return OperationId{std::uint64_t{generation} << 32 | index};
}
[[nodiscard]] constexpr std::uint32_t index_of(OperationId operation) {
  return static_cast<std::uint32_t>(static_cast<std::uint64_t>(operation));
}

}  // namespace hawser::engine
