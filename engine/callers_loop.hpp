// SPDX-License-Identifier: Apache-2.0
// The descriptor that an endpoint without a thread of its own gives to its caller's event loop. It
// becomes readable when a source is readable, and at the time that was set.
#pragma once

#include "engine/descriptor.hpp"
#include "engine/poll_set.hpp"
#include "proto/base/time.hpp"

namespace hawser::engine {

class CallersLoop {
 public:
  // Throws hawser::Error. `sources` outlives it.
  explicit CallersLoop(const PollSet& sources);

  // The first call makes wake_at effective. Before it there is no caller to wake.
  [[nodiscard]] int descriptor() const noexcept;
  // True if a caller may be waiting for the descriptor.
  [[nodiscard]] bool is_used() const noexcept { return used_; }

  // Makes the descriptor readable at `when`, or at once if that has passed. It may become readable
  // once before, at a time that an earlier call set.
  void wake_at(proto::Time now, proto::Time when) noexcept;

 private:
  void set_timer(proto::Time when) const noexcept;

  PollSet set_;
  Descriptor timer_;
  mutable proto::Time armed_ = proto::kNever;
  mutable bool used_ = false;
};

// Makes the descriptor readable when a wait ends, even by cancellation of the waiting thread.
class LoopWaking {
 public:
  explicit LoopWaking(CallersLoop& loop) noexcept : loop_(loop) {}
  ~LoopWaking() { loop_.wake_at(proto::Time{1}, proto::Time{1}); }
  LoopWaking(const LoopWaking&) = delete;
  LoopWaking& operator=(const LoopWaking&) = delete;

 private:
  CallersLoop& loop_;
};

}  // namespace hawser::engine
