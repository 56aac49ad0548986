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
  // As fi_cntr_read and fi_cntr_readerr.
  std::uint64_t read();
  std::uint64_t read_errors();
  // The values, without progress.
  [[nodiscard]] std::uint64_t value() const { return value_; }
  [[nodiscard]] std::uint64_t errors() const { return errors_; }
  // Returns 0, -FI_EAVAIL if an error occurred meanwhile, or -FI_ETIMEDOUT.
  int wait(std::uint64_t threshold, int timeout_ms);
  int try_wait();

  using EventSink::add;

 private:
  // A call of `wait`. The counter knows each, so that the bell rings while one of them should wake
  // up.
  class Waiter {
   public:
    Waiter(Counter& counter, std::uint64_t threshold);
    ~Waiter();
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;
    [[nodiscard]] bool has_failed() const { return counter_.errors_ != errors_; }
    [[nodiscard]] bool is_done() const { return has_failed() || counter_.value_ >= threshold_; }

    Waiter* next = nullptr;

   private:
    Counter& counter_;
    std::uint64_t threshold_;
    std::uint64_t errors_;  // when it began
  };

  // Makes progress before a read.
  void look();
  template <class Change>
  void change(Change&& change);
  [[nodiscard]] bool is_any_done_locked() const;
  // Quiets the bell unless a wait should end. try_wait remembers what a program that polls the
  // descriptor has not read.
  void settle_locked();

  Domain& domain_;
  // Guarded by state_mutex_, except that any thread may read the two values.
  std::atomic<std::uint64_t> value_{0};
  std::atomic<std::uint64_t> errors_{0};
  std::uint64_t seen_value_ = 0;   // the value that the program read last, or try_wait reported
  std::uint64_t seen_errors_ = 0;  // the same
  Waiter* waiters_ = nullptr;
};

int open_counter(fid_domain* domain, fi_cntr_attr* attr, fid_cntr** counter, void* context);

}  // namespace hawser::ofi
