// SPDX-License-Identifier: Apache-2.0
// The record of one operation: it lives from the program's call until the program reads the
// completion.
//
// Records live in pools. These are the only limit on a program's operations in progress: an empty
// pool returns -FI_EAGAIN. The pool of receives can grow. A finished record is linked into its
// completion queue, and the read returns it to its pool. A completion queue therefore needs no
// memory, and never overruns.
#pragma once

#include <rdma/fi_endpoint.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "hawser/one_sided.hpp"
#include "hawser/types.hpp"

namespace hawser::ofi {

class Endpoint;
class OperationPool;

// The kind of an operation: a message, or one of those on a peer's memory.
enum class Act : std::uint8_t { message, write, read, atomic };

// The effect of an atomic on a word of a peer's memory.
struct Word {
  AtomicOperation operation = AtomicOperation::load;
  std::uint8_t width = 0;  // in bytes
  bool fetches = false;    // the word as it was before goes to the operation's buffer
};

struct Operation {
  Operation* next = nullptr;  // in a completion queue, the queue of waiting receives, or a pool
  OperationPool* pool = nullptr;
  Endpoint* endpoint = nullptr;
  void* context = nullptr;  // the program's
  OperationId id = kNoOperation;
  PeerId peer = kAnyPeer;  // the peer that it was posted for, then the peer of its message
  fi_addr_t address = FI_ADDR_NOTAVAIL;  // the address that the program named
  fi_addr_t source = FI_ADDR_NOTAVAIL;
  std::uint64_t flags = 0;  // flags of the entry
  // For a send that Hawser has not taken yet: its bytes (only read), their number, and its
  // immediate bits. Later, and for receives: the values of the entry.
  // For a one-sided operation under way: `buffer` is this side's memory, `tag` the address and
  // `ignore` the key of the peer's memory. `data` is the immediate or the operand, `overflow` the
  // word to compare with.
  std::byte* buffer = nullptr;
  std::uint64_t length = 0;  // of the buffer, then of the message
  std::uint64_t data = 0;
  std::uint64_t tag = 0;
  std::uint64_t overflow = 0;  // bytes that had no room
  std::uint64_t ignore = 0;    // for a tagged receive that Hawser has not taken yet
  int error = 0;               // FI_E...; 0: it ended well
  Status status = Status::ok;  // the reason
  bool is_open = false;        // neither finished nor in its pool
  bool is_send = false;
  bool is_delivered = false;  // a send that completes when a receive has the message
  bool writes_entry = true;   // if it ends well; errors are always written
  bool is_silent = false;     // the program can't refer to it any more
  bool is_by_mirror = false;  // a send to ourselves: `peer` is the mirror's name for us
  bool is_discard = false;    // a receive that discards a claimed message
  bool is_posted = false;     // a receive that Hawser matches with a message
  // For a multi-receive buffer: how full it is, how many of its messages are in progress, and
  // whether it is used up. It is the parent of its messages.
  bool is_multi = false;
  bool is_used_up = false;
  std::uint32_t children = 0;
  std::uint64_t filled = 0;
  Operation* parent = nullptr;
  // The rest of a one-sided operation. One that Hawser can't do at once has parts, whose parent it
  // is.
  Act act = Act::message;
  Word word{};                  // of an atomic
  bool notifies = false;        // the target gets an entry
  bool is_asked_again = false;  // refused once; the region's owner was asked for the key again
  bool is_fenced = false;       // also of a send: waits for all before it to its peer
  Operation* parts = nullptr;   // linked by `next`: those that have not begun
  std::uint64_t secret = 0;     // of the region's key that was used
  // The places of a message in several ones (vectors.hpp): `buffer` is then null.
  std::uint32_t vector_count = 0;
  std::array<iovec, kMostPieces> vectors;  // not made before they are used
};

// take and give require the endpoint's lock. give_later may be called from any thread. The pool
// holds `size` records. It grows by `size` at a time, up to `most`, if there is memory.
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
  // Only `take` removes records, and it removes all at once, so the ABA problem can't occur.
  void give_later(Operation& operation) {
    operation.is_open = false;
    operation.next = returned_.load(std::memory_order_relaxed);
    while (!returned_.compare_exchange_weak(operation.next, &operation, std::memory_order_release,
                                            std::memory_order_relaxed)) {
    }
  }

  // Returns the first record that is in use and meets `condition`; null if there is none.
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
  // How many more records it can hold.
  [[nodiscard]] std::size_t left() {
    return most_ - count_open([](const Operation&) { return true; });
  }
  // The index of one of the first `size` records.
  [[nodiscard]] std::size_t index_of(const Operation& operation) const {
    return static_cast<std::size_t>(&operation -
                                    reinterpret_cast<const Operation*>(chunks_.front().get()));
  }
  [[nodiscard]] bool has_room() const {
    return free_ != nullptr || touched_ < most_ || returned_.load() != nullptr;
  }
  // Makes sure that `count` records can be taken. False: there is no memory for them.
  [[nodiscard]] bool reserve(std::size_t count) {
    std::size_t left = chunks_.size() * size_ - touched_;
    if (left >= count) return true;
    Operation** end = &free_;
    for (; *end != nullptr && left < count; end = &(*end)->next) ++left;
    if (left >= count) return true;
    *end = returned_.exchange(nullptr, std::memory_order_acquire);
    for (; *end != nullptr && left < count; end = &(*end)->next) ++left;
    return left >= count || grow();
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

  std::vector<std::unique_ptr<std::byte[]>> chunks_;  // not touched before they are used
  std::size_t size_;                                  // records per chunk
  std::size_t most_;
  std::size_t touched_ = 0;
  Operation* free_ = nullptr;
  std::atomic<Operation*> returned_{nullptr};
};

// A walk through a queue says for each operation what becomes of it. `stop` keeps the operation,
// too, and ends the walk.
enum class QueueStep { keep, remove, stop };

// Operations in order of arrival.
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
  // Removes the operations for which `condition` returns true. It is called once for each.
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
  // Visits operations until `visit` returns QueueStep::stop. During a visit the queue consists of
  // the older operations that stay.
  template <class Visit>
  void walk(Visit&& visit) {
    Operation* rest = head_;
    Operation* const last = tail_;
    head_ = tail_ = nullptr;
    while (rest != nullptr) {
      Operation* const operation = rest;
      Operation* const next = rest->next;
      const QueueStep step = visit(*operation);
      if (step == QueueStep::stop) break;
      rest = next;
      if (step == QueueStep::keep) push(*operation);
    }
    if (rest == nullptr) return;
    (head_ == nullptr ? head_ : tail_->next) = rest;
    tail_ = last;
  }

 private:
  Operation* head_ = nullptr;
  Operation* tail_ = nullptr;
};

}  // namespace hawser::ofi
