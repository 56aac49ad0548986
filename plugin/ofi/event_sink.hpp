// SPDX-License-Identifier: Apache-2.0
// The common part of completion queues and counters: the endpoints whose progress they make, and
// the waiting of threads.
//
// The bell makes the sink's descriptor readable. It is a level, not an edge: it rings as long as
// there is something for a thread that sleeps or for a program that polls the descriptor. One
// thread that wakes up thus takes no signal of another. The sink's state decides, so ring and quiet
// require the lock of the state.
//
// Order of locks: the sink's members, an endpoint, the sink's state.
#pragma once

#include <pthread.h>
#include <rdma/fi_eq.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "plugin/ofi/idle_reads.hpp"
#include "plugin/ofi/object.hpp"
#include "plugin/ofi/waiting.hpp"

namespace hawser::ofi {

class Domain;
class Endpoint;

class EventSink {
  using Clock = std::chrono::steady_clock;

 public:
  EventSink(const Domain& domain, fi_wait_obj object);

  // Adds each endpoint once. `descriptor` belongs to an enabled endpoint.
  void add(Endpoint& endpoint);
  void remove(Endpoint& endpoint);
  [[nodiscard]] bool is_waitable() const { return waiting_.has_value(); }
  void watch(int descriptor) { waiting_->watch(descriptor); }
  void forget(int descriptor) { waiting_->forget(descriptor); }

  // Runs one turn of every endpoint.
  void progress();
  // True if an endpoint needs turns even if no descriptor becomes readable.
  [[nodiscard]] bool must_be_turned();
  // fi_control: FI_GETWAIT, FI_GETWAITOBJ.
  int control(int command, void* argument);
  // Calls `look` until it returns true, the wait is stopped, or the time is over (-1: no limit).
  // Runs turns of the endpoints between calls, and blocks when those have been useless for a while.
  // A cancellation point, between turns and without a lock. A `look` that finds nothing for any
  // thread quiets the bell.
  template <class Look>
  bool wait_until(Look&& look, int timeout_ms);

  // Ends a wait, the next one if none is under way.
  void stop_waiting();

  std::atomic<unsigned> users{0};  // endpoints and poll sets

 protected:
  // Reports that there is something.
  void ring_locked() {
    if (waiting_ && (is_polled_ || sleepers_ > 0) && !is_ringing_) set_bell_locked(true);
  }
  // Reports that there is nothing. A wait that is to end hears the bell nevertheless.
  void quiet_locked() {
    if (is_ringing_ && !stopped_) set_bell_locked(false);
  }
  // True, once, after stop_waiting.
  bool is_stopped();

  IdleReads idle_reads_;
  Mutex state_mutex_;  // guards the sink's state, and the bell

 private:
  void set_bell_locked(bool rings);
  void start_polling();

  static constexpr std::chrono::microseconds kSpin{50};
  static constexpr int kShortSleepMs = 1;

  // Counts a thread while it sleeps, even if it is cancelled then.
  class Sleeper {
   public:
    explicit Sleeper(std::atomic<unsigned>& count) : count_(count) { ++count_; }
    ~Sleeper() { --count_; }
    Sleeper(const Sleeper&) = delete;
    Sleeper& operator=(const Sleeper&) = delete;

   private:
    std::atomic<unsigned>& count_;
  };

  Mutex members_mutex_;
  std::vector<Endpoint*> members_;
  fi_wait_obj object_;
  bool is_polled_;  // the program has the descriptor, and may poll it at any time
  bool is_ringing_ = false;
  std::optional<Waiting> waiting_;
  std::atomic<unsigned> sleepers_{0};
  std::atomic<bool> stopped_{false};
};

template <class Look>
bool EventSink::wait_until(Look&& look, int timeout_ms) {
  ::pthread_testcancel();
  const Clock::time_point begin = Clock::now();
  const Clock::time_point end =
      timeout_ms < 0 ? Clock::time_point::max() : begin + std::chrono::milliseconds(timeout_ms);
  for (;;) {
    if (look()) return true;
    progress();
    if (look()) return true;
    if (is_stopped()) return false;
    const Clock::time_point now = Clock::now();
    if (now >= end) return false;
    if (now - begin < kSpin || !waiting_ || object_ == FI_WAIT_YIELD) {
      ::pthread_testcancel();
      std::this_thread::yield();
      continue;
    }
    const Sleeper sleeper(sleepers_);
    if (!look()) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - now).count();
      const int most = timeout_ms < 0 ? -1 : static_cast<int>(left) + 1;
      waiting_->wait(must_be_turned() ? kShortSleepMs : most);
    }
  }
}

}  // namespace hawser::ofi
