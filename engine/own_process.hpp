// SPDX-License-Identifier: Apache-2.0
// Detects whether an object belongs to this process or, after fork(2), to its parent. A child has a
// copy of all memory but none of the threads. It shares sockets, RDMA objects and event descriptors
// with its parent, so acting on its copy of an endpoint would change the parent's endpoint.
#pragma once

#include <atomic>
#include <cstdint>
#include <new>
#include <utility>

#include "engine/cancellation.hpp"

namespace hawser::engine {

class OwnProcess {
 public:
  OwnProcess() noexcept;  // marks the calling process as the owner
  // True in the process that made it. For any thread; costs two loads.
  [[nodiscard]] bool is_here() const noexcept {
    return mark_->load(std::memory_order_relaxed) == number_;
  }

 private:
  const std::atomic<std::uint32_t>* mark_;  // the process's
  std::uint32_t number_;
};

// A member that only the process which made it destroys. Other processes leave it as it is.
template <class T>
class OfProcess {
 public:
  template <class... Arguments>
  explicit OfProcess(Arguments&&... arguments) : value_(std::forward<Arguments>(arguments)...) {}
  ~OfProcess() {
    const CancellationHold hold;
    if (owner_.is_here()) value_.~T();
  }
  OfProcess(const OfProcess&) = delete;
  OfProcess& operator=(const OfProcess&) = delete;

  [[nodiscard]] bool is_here() const noexcept { return owner_.is_here(); }
  [[nodiscard]] T* operator->() noexcept { return &value_; }
  [[nodiscard]] const T* operator->() const noexcept { return &value_; }
  [[nodiscard]] T& operator*() noexcept { return value_; }
  [[nodiscard]] const T& operator*() const noexcept { return value_; }

 private:
  OwnProcess owner_;
  union {
    T value_;
  };
};

}  // namespace hawser::engine
