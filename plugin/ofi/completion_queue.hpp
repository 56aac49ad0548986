// SPDX-License-Identifier: Apache-2.0
// fid_cq: finished operations, in the order in which they finished.
#pragma once

#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

#include <cstddef>
#include <string>

#include "plugin/ofi/domain.hpp"
#include "plugin/ofi/event_sink.hpp"
#include "plugin/ofi/operation.hpp"

namespace hawser::ofi {

class CompletionQueue : public fid_cq, public EventSink {
 public:
  CompletionQueue(Domain& domain, const fi_cq_attr& attr, void* context);
  ~CompletionQueue();

  void push(Operation& operation);
  // Drops the entries of an endpoint that is closing, and waits for threads that read one of them.
  void drop(const Endpoint& endpoint);

  // As fi_cq_readfrom and the like. `sources` may be null.
  ssize_t read(void* entries, std::size_t count, fi_addr_t* sources);
  ssize_t read_error(fi_cq_err_entry& entry);
  ssize_t wait_and_read(void* entries, std::size_t count, fi_addr_t* sources, int timeout_ms);
  int try_wait();
  [[nodiscard]] bool has_entries();

 private:
  [[nodiscard]] bool is_empty_locked();
  // Returns -FI_EAGAIN if there is no entry.
  ssize_t take(void* entries, std::size_t count, fi_addr_t* sources);
  // True, once, if the last read took the last entry.
  bool is_asked_for_more();

  Domain& domain_;
  fi_cq_format format_;
  // Held while an error is read. It comes before the endpoint's lock.
  Mutex errors_mutex_;
  // Guarded by state_mutex_.
  OperationQueue finished_;
  bool was_emptied_ = false;
  std::string error_text_;  // of the last error read
};

int open_completion_queue(fid_domain* domain, fi_cq_attr* attr, fid_cq** queue, void* context);

}  // namespace hawser::ofi
