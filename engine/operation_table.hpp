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
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "engine/operation_id.hpp"
#include "engine/word_ring.hpp"
#include "hawser/one_sided.hpp"
#include "proto/base/untouched.hpp"
#include "proto/endpoint.hpp"

namespace hawser::engine {

// The fields that all one-sided operations have in common. Their requests lie beside the slots, so
// the slots of messages stay small.
struct OneSidedMark {
  OperationId operation = kNoOperation;
  std::uint64_t user_data = 0;
  PeerId peer = kAnyPeer;  // of a withdrawal: kAnyPeer
  std::uint16_t channel = 0;
  OperationKind kind = OperationKind::write;
};
using OneSidedRequest = std::variant<WriteRequest, ReadRequest, AtomicRequest, FlushRequest>;

struct OperationSlot {
  std::uint32_t generation = 0;  // changes with each use of the index
  bool finished = false;         // the final status is known; `released` may still be to come
  std::variant<proto::SendRequest, proto::ReceiveRequest, OneSidedMark> request;

  [[nodiscard]] OperationId operation() const {
    return std::visit([](const auto& asked) { return asked.operation; }, request);
  }
  // Null: it is a send or a receive.
  [[nodiscard]] const OneSidedMark* one_sided() const {
    return std::get_if<OneSidedMark>(&request);
  }
  [[nodiscard]] bool is_send() const { return std::holds_alternative<proto::SendRequest>(request); }
  // The peer that a send or a one-sided operation goes to; kAnyPeer: it is neither.
  [[nodiscard]] PeerId target() const {
    if (const auto* send = std::get_if<proto::SendRequest>(&request)) return send->peer;
    return one_sided() != nullptr ? one_sided()->peer : kAnyPeer;
  }
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
  // The request of a one-sided operation. Its poster writes it before it passes the slot on.
  void put_request(std::uint64_t index, const OneSidedRequest& request) {
    std::construct_at(&one_sided_[index], request);
  }
  [[nodiscard]] const OneSidedRequest& request(std::uint64_t index) const {
    return one_sided_[index];
  }
  [[nodiscard]] std::size_t capacity() const { return slots_.size(); }

 private:
  std::vector<OperationSlot> slots_;
  proto::Untouched<OneSidedRequest> one_sided_;  // by index
  WordRing free_;
};

}  // namespace hawser::engine
