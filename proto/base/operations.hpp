// SPDX-License-Identifier: Apache-2.0
// The operations of an endpoint: which the caller has begun and not yet reaped, by the index in an
// operation's name, and the completions that wait for the caller.
//
// Invariant: a live operation has two places in the ring of completions, one for its end and one
// for the release of its buffer. A completion therefore always finds room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "hawser/types.hpp"
#include "proto/base/assert.hpp"
#include "proto/base/ring.hpp"
#include "proto/base/slab.hpp"
#include "proto/base/time.hpp"

namespace hawser::proto {

struct OperationSlot {
  OperationId operation = kNoOperation;
  OperationKind kind = OperationKind::send;
  bool live = false;
  std::uint32_t outgoing = kNoIndex;  // of a send: its message
  Time posted_at{};
};

class Operations {
 public:
  explicit Operations(std::uint32_t capacity) : slots_(capacity), completions_(2 * capacity) {}

  // Whether an operation may have this name: its index is in range, and no live operation has it.
  [[nodiscard]] bool is_free(OperationId operation) const {
    const std::uint32_t index = index_of(operation);
    return index < slots_.size() && !slots_[index].live;
  }
  // The name must be free.
  void begin(OperationId operation, OperationKind kind, std::uint32_t outgoing, Time now) {
    slots_[index_of(operation)] = {operation, kind, true, outgoing, now};
    ++live_;
  }
  // An operation that was just begun did not begin after all.
  void take_back(OperationId operation) {
    slots_[index_of(operation)].live = false;
    --live_;
  }
  // Null: no live operation has this name.
  [[nodiscard]] const OperationSlot* find(OperationId operation) const {
    const std::uint32_t index = index_of(operation);
    if (index >= slots_.size()) return nullptr;
    const OperationSlot& slot = slots_[index];
    return slot.live && slot.operation == operation ? &slot : nullptr;
  }
  template <class Visit>
  void for_each_receive(Visit&& visit) const {
    for (const OperationSlot& slot : slots_) {
      if (slot.live && slot.kind == OperationKind::receive) visit(slot);
    }
  }
  void complete(const Completion& completion) {
    OperationSlot& slot = slots_[index_of(completion.operation)];
    HAWSER_ASSERT(slot.live && slot.operation == completion.operation);
    if (completion.released) {
      slot.live = false;
      --live_;
    }
    completions_.put(completion);
  }
  // Moves completions to the caller; returns how many.
  std::size_t poll(std::span<Completion> completions) {
    std::size_t n = 0;
    while (n < completions.size() && !completions_.empty()) completions[n++] = completions_.pop();
    return n;
  }
  [[nodiscard]] std::uint32_t live() const { return live_; }

 private:
  [[nodiscard]] static std::uint32_t index_of(OperationId operation) {
    return static_cast<std::uint32_t>(operation);
  }

  std::vector<OperationSlot> slots_;
  Ring<Completion> completions_;
  std::uint32_t live_ = 0;
};

}  // namespace hawser::proto
