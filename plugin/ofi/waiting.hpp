// SPDX-License-Identifier: Apache-2.0
// What a thread blocks on that waits for completions: one descriptor for those of several endpoints
// and a bell.
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
  // Readable while it is. An endpoint's may be added twice.
  void watch(int descriptor);
  void forget(int descriptor);
  // Makes the descriptor readable until `quiet`.
  void ring();
  void quiet();
  // Until it is readable, or so many milliseconds; -1: for ever. A cancellation point.
  void wait(int timeout_ms) const;

 private:
  int epoll_;
  int bell_;
};

// Of fi_cq_open and fi_cntr_open. Ours are FI_WAIT_NONE, _UNSPEC, _FD and _YIELD.
[[nodiscard]] bool is_offered(fi_wait_obj object);

}  // namespace hawser::ofi
