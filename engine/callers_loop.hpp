// SPDX-License-Identifier: Apache-2.0
// The descriptor that an endpoint without a thread of its own shows to its caller's event loop:
// readable when a source is, and when the time has come that was set.
#pragma once

#include "engine/descriptor.hpp"
#include "engine/poll_set.hpp"
#include "proto/base/time.hpp"

namespace hawser::engine {

class CallersLoop {
 public:
  // Throws hawser::Error. `sources` outlives it.
  explicit CallersLoop(const PollSet& sources);

  // From the first call on, wake_at does what it says; before, nobody is there to wake.
  [[nodiscard]] int descriptor() const noexcept;
  // Whether somebody may be waiting for it.
  [[nodiscard]] bool is_used() const noexcept { return used_; }

  // Readable at `when`; if that has passed, at once. May be readable once before, at a time that an
  // earlier call named.
  void wake_at(proto::Time now, proto::Time when) noexcept;

 private:
  void set_timer(proto::Time when) const noexcept;

  PollSet set_;
  Descriptor timer_;
  mutable proto::Time armed_ = proto::kNever;
  mutable bool used_ = false;
};

// Makes the descriptor readable at the end of a wait, also of a thread's that is cancelled there.
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
