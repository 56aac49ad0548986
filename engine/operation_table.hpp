// SPDX-License-Identifier: Apache-2.0
// The operations of an endpoint that an engine thread serves: their names, their limit, and each
// request on its way to the engine thread.
//
// An application thread takes a slot when it posts an operation. The slot is given back when the
// operation's last completion has been polled. An operation with a slot therefore has room
// everywhere else: the command ring holds one entry per slot, the completion queue two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "engine/operation_id.hpp"
#include "engine/word_ring.hpp"
#include "hawser/one_sided.hpp"
#include "proto/endpoint.hpp"

namespace hawser::engine {

// A one-sided operation on its way to the engine thread.
template <class Request>
struct OneSided {
  OperationId operation = kNoOperation;
  Request request{};
};

// The call has withdrawn the region; the completion is to come.
struct Withdrawing {
  OperationId operation = kNoOperation;
};

struct OperationSlot {
  std::uint32_t generation = 0;  // changes with each use of the index
  bool finished = false;         // the final status is known; `released` may still be to come
  std::variant<proto::SendRequest, proto::ReceiveRequest, OneSided<WriteRequest>,
               OneSided<ReadRequest>, OneSided<AtomicRequest>, OneSided<FlushRequest>, Withdrawing>
      request;

  [[nodiscard]] OperationId operation() const {
    return std::visit([](const auto& asked) { return asked.operation; }, request);
  }
  // The peer that a send or a one-sided operation goes to; kAnyPeer: it is neither.
  [[nodiscard]] PeerId target() const;
  [[nodiscard]] bool is_send() const { return std::holds_alternative<proto::SendRequest>(request); }
  [[nodiscard]] bool is_flush() const {
    return std::holds_alternative<OneSided<FlushRequest>>(request);
  }
  // Of a one-sided operation.
  [[nodiscard]] std::uint16_t channel() const;
};

class OperationTable {
 public:
  explicit OperationTable(std::size_t max_operations);

  // Returns a free slot, which the caller owns until it passes it on; null if all are in use. Any
  // thread.
  [[nodiscard]] OperationSlot* take(OperationId& operation);
  // Returns slots. Any thread may call it, once for each taken index.
  void give(std::span<const std::uint64_t> indices);

  [[nodiscard]] OperationSlot& at(std::uint64_t index) { return slots_[index]; }
  [[nodiscard]] const OperationSlot& at(std::uint64_t index) const { return slots_[index]; }
  [[nodiscard]] std::size_t capacity() const { return slots_.size(); }

 private:
  std::vector<OperationSlot> slots_;
  WordRing free_;
};

}  // namespace hawser::engine
