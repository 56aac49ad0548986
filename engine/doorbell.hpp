// SPDX-License-Identifier: Apache-2.0
// Wakes one thread that sleeps in the kernel. Ringing costs no system call while that thread is
// awake.
//
// The sleeper:  arm(); look once more for work; if there is none, wait until descriptor() is
//               readable; then disarm().
// The waker:    publish the work; ring().
//
// All changes of the state are read-modify-writes, so they have one order. Either the waker sees
// that the sleeper is armed, or the sleeper sees the work when it looks once more.
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

  // For the sleeper's thread only. arm returns false after a ring whose write disarm has not read
  // yet. The descriptor is then readable, or about to be.
  bool arm() noexcept;
  void disarm() noexcept;

  // Readable from a ring that finds the doorbell armed, until disarm.
  [[nodiscard]] int descriptor() const noexcept { return event_.get(); }

 private:
  enum State : std::uint32_t { kIdle, kArmed, kRung };
  Descriptor event_;
  std::atomic<std::uint32_t> state_{kIdle};
};

// Arms a doorbell for a sleep and disarms it at the end, even if cancellation unwinds the thread.
class ArmedDoorbell {
 public:
  explicit ArmedDoorbell(Doorbell& bell) noexcept : bell_(bell), armed_(bell.arm()) {}
  ~ArmedDoorbell() { bell_.disarm(); }
  ArmedDoorbell(const ArmedDoorbell&) = delete;
  ArmedDoorbell& operator=(const ArmedDoorbell&) = delete;

  // False if it was rung already.
  [[nodiscard]] bool is_armed() const noexcept { return armed_; }

 private:
  Doorbell& bell_;
  bool armed_;
};

}  // namespace hawser::engine
