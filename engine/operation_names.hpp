// SPDX-License-Identifier: Apache-2.0
// Names of operations for an endpoint that one thread uses: a stack of free indices, and a
// generation per index. OperationTable does the same between threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/operation_id.hpp"
#include "hawser/types.hpp"
#include "proto/base/assert.hpp"

namespace hawser::engine {

class OperationNames {
 public:
  explicit OperationNames(std::size_t max_operations) : generations_(max_operations) {
    free_.reserve(max_operations);
    for (std::size_t index = max_operations; index > 0; --index) {
      free_.push_back(static_cast<std::uint32_t>(index - 1));
    }
  }

  [[nodiscard]] bool any_free() const { return !free_.empty(); }

  // Requires that a name is free.
  [[nodiscard]] OperationId take() {
    HAWSER_ASSERT(any_free());
    const std::uint32_t index = free_.back();
    free_.pop_back();
    return operation_id(index, ++generations_[index]);
  }
  void give(OperationId operation) {
    HAWSER_ASSERT(free_.size() < generations_.size());
    free_.push_back(index_of(operation));
  }

 private:
  std::vector<std::uint32_t> generations_;
  std::vector<std::uint32_t> free_;  // the last element is the one that was used last
};

}  // namespace hawser::engine
