// SPDX-License-Identifier: Apache-2.0
#include "engine/operation_table.hpp"

#include "proto/base/assert.hpp"

namespace hawser::engine {

OperationTable::OperationTable(std::size_t max_operations)
    : slots_(max_operations),
      one_sided_(max_operations),
      free_(max_operations, WordRing::Consumers::many) {
  for (std::uint64_t index = 0; index < max_operations; ++index) {
    const bool pushed = free_.push(index);
    HAWSER_ASSERT(pushed);
  }
}

OperationSlot* OperationTable::take(OperationId& operation) {
  std::uint64_t index = 0;
  if (free_.pop(std::span(&index, 1)) == 0) return nullptr;
  OperationSlot& slot = slots_[index];
  slot.finished = false;
  operation = operation_id(static_cast<std::uint32_t>(index), ++slot.generation);
  return &slot;
}

void OperationTable::give(std::span<const std::uint64_t> indices) {
  const bool pushed = indices.empty() || free_.push(indices);
  HAWSER_ASSERT(pushed, "more slots returned than taken");
}

}  // namespace hawser::engine
