// SPDX-License-Identifier: Apache-2.0
// The descriptor on which a thread waits for completions. It combines the descriptors of several
// endpoints and a bell.
#pragma once

#include <rdma/fi_eq.h>

namespace hawser::ofi {

class Waiting {
 public:
  Waiting();  // throws std::system_error
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  [[nodiscard]] int descriptor() const { return epoll_; }
  // Readable while `descriptor` is. An endpoint's descriptor may be added twice.
  void watch(int descriptor);
  void forget(int descriptor);
  // Makes the descriptor readable until `quiet`.
  void ring();
  void quiet();
  // Waits until it is readable, or that many milliseconds; -1: without limit. A cancellation point.
  void wait(int timeout_ms) const;

 private:
  int epoll_;
  int bell_;
};

// True for the wait objects of fi_cq_open and fi_cntr_open that the provider offers: FI_WAIT_NONE,
// _UNSPEC, _FD and _YIELD.
[[nodiscard]] bool is_offered(fi_wait_obj object);

}  // namespace hawser::ofi
