// SPDX-License-Identifier: Apache-2.0
// The record of one operation: from the program's call to the moment that its completion is read.
//
// Records live in pools, which are the only limit on what a program may have under way: an empty
// pool is -FI_EAGAIN. That of the receives grows. A finished record is linked into its completion
// queue, and given back by who reads it; so a completion queue needs no memory, and is never
// overrun.
#pragma once

#include <rdma/fi_endpoint.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "hawser/types.hpp"

namespace hawser::ofi {

class Endpoint;
class OperationPool;

struct Operation {
  Operation* next = nullptr;  // in a completion queue, the queue of waiting receives, or a pool
  OperationPool* pool = nullptr;
  Endpoint* endpoint = nullptr;
  void* context = nullptr;  // the program's
  OperationId id = kNoOperation;
  PeerId peer = kAnyPeer;                // that it was posted for, then the one that it is of
  fi_addr_t address = FI_ADDR_NOTAVAIL;  // that the program named for it
  fi_addr_t source = FI_ADDR_NOTAVAIL;
  std::uint64_t flags = 0;  // of the entry
  // Of a send that Hawser has not taken yet: its bytes, which it doesn't write to, how many, and
  // its immediate bits. After that, and of receives, what the entry says.
  std::byte* buffer = nullptr;
  std::uint64_t length = 0;  // of the buffer, then what arrived
  std::uint64_t data = 0;
  std::uint64_t tag = 0;
  std::uint64_t overflow = 0;  // bytes that had no room
  std::uint64_t ignore = 0;    // of a tagged receive that Hawser has not taken yet
  int error = 0;               // FI_E...; 0: it ended well
  Status status = Status::ok;  // why
  bool is_open = false;        // neither finished nor in its pool
  bool is_send = false;
  bool is_delivered = false;  // a send that completes when a receive has it
  bool writes_entry = true;   // if it ends well; errors are always written
  bool is_silent = false;     // the program has no name for it any more
  bool is_by_mirror = false;  // a send to ourselves: `peer` is the mirror's name for us
  bool is_discard = false;    // a receive that gets rid of a claimed message
  bool is_posted = false;     // a receive that Hawser matches with a message
  // A multi-receive buffer: how full it is, how many of its messages are on their way, whether no
  // more goes in. Its messages have it as their parent.
  bool is_multi = false;
  bool is_used_up = false;
  std::uint32_t children = 0;
  std::uint64_t filled = 0;
  Operation* parent = nullptr;
};

// take and give: under the endpoint's lock. give_later: from any thread. Holds `size` records, and
// up to `most` if there is memory for them: it grows by `size` at a time.
class OperationPool {
 public:
  explicit OperationPool(std::size_t size, std::size_t most = 0)
      : size_(size), most_(std::max(size, most)) {
    chunks_.reserve(most_ / size_ + 1);
    chunks_.emplace_back(new std::byte[size_ * sizeof(Operation)]);
  }

  [[nodiscard]] Operation* take(Endpoint& endpoint) {
    if (free_ == nullptr) free_ = returned_.exchange(nullptr, std::memory_order_acquire);
    Operation* operation = free_;
    if (operation != nullptr) {
      free_ = operation->next;
    } else if (touched_ < chunks_.size() * size_ || grow()) {
      operation = at(touched_++);
    } else {
      return nullptr;
    }
    new (operation) Operation;
    operation->pool = this;
    operation->endpoint = &endpoint;
    operation->is_open = true;
    return operation;
  }
  void give(Operation& operation) {
    operation.is_open = false;
    operation.next = free_;
    free_ = &operation;
  }
  // Only `take` removes, and all at once: no record can come back behind anyone's back.
  void give_later(Operation& operation) {
    operation.is_open = false;
    operation.next = returned_.load(std::memory_order_relaxed);
    while (!returned_.compare_exchange_weak(operation.next, &operation, std::memory_order_release,
                                            std::memory_order_relaxed)) {
    }
  }

  // The first that is in use and for which `condition` holds; null if there is none.
  template <class Condition>
  [[nodiscard]] Operation* find_open(Condition&& condition) {
    for (std::size_t i = 0; i < touched_; ++i) {
      if (at(i)->is_open && condition(*at(i))) return at(i);
    }
    return nullptr;
  }
  template <class Condition>
  [[nodiscard]] std::size_t count_open(Condition&& condition) {
    std::size_t count = 0;
    (void)find_open([&](const Operation& operation) {
      count += condition(operation) ? 1 : 0;
      return false;
    });
    return count;
  }
  // How many more it can hold at most.
  [[nodiscard]] std::size_t left() {
    return most_ - count_open([](const Operation&) { return true; });
  }
  // Of one of the first `size`.
  [[nodiscard]] std::size_t index_of(const Operation& operation) const {
    return static_cast<std::size_t>(&operation -
                                    reinterpret_cast<const Operation*>(chunks_.front().get()));
  }
  [[nodiscard]] bool has_room() const {
    return free_ != nullptr || touched_ < most_ || returned_.load() != nullptr;
  }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  Operation* at(std::size_t i) {
    return reinterpret_cast<Operation*>(chunks_[i / size_].get()) + i % size_;
  }
  bool grow() {
    if ((chunks_.size() + 1) * size_ > most_) return false;
    std::byte* const memory = new (std::nothrow) std::byte[size_ * sizeof(Operation)];
    if (memory != nullptr) chunks_.emplace_back(memory);
    return memory != nullptr;
  }

  std::vector<std::unique_ptr<std::byte[]>> chunks_;  // not written to before they are used
  std::size_t size_;                                  // of each
  std::size_t most_;
  std::size_t touched_ = 0;
  Operation* free_ = nullptr;
  std::atomic<Operation*> returned_{nullptr};
};

// Operations in the order in which they came.
class OperationQueue {
 public:
  [[nodiscard]] bool empty() const { return head_ == nullptr; }
  [[nodiscard]] Operation* front() const { return head_; }
  void push(Operation& operation) {
    operation.next = nullptr;
    (head_ == nullptr ? head_ : tail_->next) = &operation;
    tail_ = &operation;
  }
  Operation* pop() {
    Operation* const operation = head_;
    head_ = operation->next;
    return operation;
  }
  template <class Condition>
  [[nodiscard]] bool any_of(Condition&& condition) const {
    const Operation* operation = head_;
    while (operation != nullptr && !condition(*operation)) operation = operation->next;
    return operation != nullptr;
  }
  // Those for which `condition` holds, each handed to it once.
  template <class Condition>
  void remove_if(Condition&& condition) {
    Operation* rest = head_;
    head_ = tail_ = nullptr;
    while (rest != nullptr) {
      Operation* const operation = rest;
      rest = rest->next;
      if (!condition(*operation)) push(*operation);
    }
  }

 private:
  Operation* head_ = nullptr;
  Operation* tail_ = nullptr;
};

}  // namespace hawser::ofi
