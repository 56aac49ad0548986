// SPDX-License-Identifier: Apache-2.0
// The operations of an endpoint that an engine thread serves: their names, their limit, and the
// request of each on its way to the engine thread.
//
// A slot is taken by the application thread that posts the operation and given back when its last
// completion has been polled. So an operation that got a slot has a place everywhere else: the
// command ring holds an entry for every slot, the completion queue two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "engine/operation_id.hpp"
#include "engine/word_ring.hpp"
#include "hawser/types.hpp"
#include "proto/endpoint.hpp"

namespace hawser::engine {

struct OperationSlot {
  std::uint32_t generation = 0;  // changes with each use of the index
  bool finished = false;         // its final status is known; `released` may still be to come
  std::variant<proto::SendRequest, proto::ReceiveRequest> request;
};

class OperationTable {
 public:
  explicit OperationTable(std::size_t max_operations);

  // A free slot, the caller's until it hands it on; null if all are in use. Any thread.
  [[nodiscard]] OperationSlot* take(OperationId& operation);
  // Any thread; each index that was taken, once.
  void give(std::span<const std::uint64_t> indices);

  [[nodiscard]] OperationSlot& at(std::uint64_t index) { return slots_[index]; }
  [[nodiscard]] std::size_t capacity() const { return slots_.size(); }

 private:
  std::vector<OperationSlot> slots_;
  WordRing free_;
};

}  // namespace hawser::engine
