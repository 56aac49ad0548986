// SPDX-License-Identifier: Apache-2.0
// Wakes one thread that sleeps in the kernel, and costs no system call while it doesn't.
//
// The sleeper:  arm(); look once more for work; if there is none, wait until descriptor() is
//               readable; then disarm().
// The waker:    publish the work; ring().
//
// All changes of the state are read-modify-writes, so the two are in one order: either the waker
// sees that the sleeper is armed, or the sleeper, looking once more, sees the work.
#pragma once

#include <atomic>
#include <cstdint>

#include "engine/descriptor.hpp"

namespace hawser::engine {

class Doorbell {
 public:
  Doorbell();  // throws hawser::Error

  // Any thread.
  void ring() noexcept;

  // The sleeper's thread. arm returns false if it was rung and disarm has not seen the ring in the
  // descriptor yet: then the descriptor is, or is about to be, readable.
  bool arm() noexcept;
  void disarm() noexcept;

  // Readable once a ring has found it armed, until disarm.
  [[nodiscard]] int descriptor() const noexcept { return event_.get(); }

 private:
  enum State : std::uint32_t { kIdle, kArmed, kRung };
  Descriptor event_;
  std::atomic<std::uint32_t> state_{kIdle};
};

// A doorbell that is armed for a sleep, however that ends: a thread that is cancelled in it
// unwinds.
class ArmedDoorbell {
 public:
  explicit ArmedDoorbell(Doorbell& bell) noexcept : bell_(bell), armed_(bell.arm()) {}
  ~ArmedDoorbell() { bell_.disarm(); }
  ArmedDoorbell(const ArmedDoorbell&) = delete;
  ArmedDoorbell& operator=(const ArmedDoorbell&) = delete;

  // False: it has been rung already.
  [[nodiscard]] bool is_armed() const noexcept { return armed_; }

 private:
  Doorbell& bell_;
  bool armed_;
};

}  // namespace hawser::engine
