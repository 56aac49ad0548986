// SPDX-License-Identifier: Apache-2.0
// fid_cntr: counts operations that ended well, and those that failed.
#pragma once

#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

#include <atomic>
#include <cstdint>

#include "plugin/ofi/domain.hpp"
#include "plugin/ofi/event_sink.hpp"

namespace hawser::ofi {

class Counter : public fid_cntr, public EventSink {
 public:
  Counter(Domain& domain, fi_wait_obj object, void* context);
  ~Counter();

  void add(std::uint64_t value);
  void set(std::uint64_t value);
  void add_error(std::uint64_t value);
  void set_error(std::uint64_t value);
  // Makes progress before a read.
  void look();
  // The values, without progress.
  [[nodiscard]] std::uint64_t value() const { return value_; }
  [[nodiscard]] std::uint64_t errors() const { return errors_; }
  // Returns 0, -FI_EAVAIL if an error occurred meanwhile, or -FI_ETIMEDOUT.
  int wait(std::uint64_t threshold, int timeout_ms);
  int try_wait();

  using EventSink::add;

 private:
  void changed();

  Domain& domain_;
  Mutex mutex_;  // held for changes, so that a thread about to sleep misses none
  std::atomic<std::uint64_t> value_{0};
  std::atomic<std::uint64_t> errors_{0};
};

int open_counter(fid_domain* domain, fi_cntr_attr* attr, fid_cntr** counter, void* context);

}  // namespace hawser::ofi
