// SPDX-License-Identifier: Apache-2.0
// The work of a verbs NIC beside its datapath, in a thread that mostly sleeps. It listens to the
// device's events, and repairs what has failed. It repairs at once, or after a hold if the NIC
// fails repeatedly (verbs_damping.hpp). Making address handles blocks, so other threads do that
// (verbs_resolver.hpp).
//
// A turn of the datapath only loads an atomic from it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>

#include "engine/descriptor.hpp"
#include "engine/driver/verbs/verbs.hpp"
#include "engine/driver/verbs/verbs_damping.hpp"
#include "engine/driver/verbs/verbs_repair.hpp"

namespace hawser::engine {

class VerbsHelper {
 public:
  // `repair` outlives this. Throws Error.
  VerbsHelper(VerbsRepair& repair, const VerbsNicConfig& config);
  ~VerbsHelper();
  VerbsHelper(const VerbsHelper&) = delete;
  VerbsHelper& operator=(const VerbsHelper&) = delete;

  // Ends the thread.
  void stop();

  // For the datapath. True if port and device allow the NIC to work. False from a failure of any
  // part, or a change of the address, until the repair.
  [[nodiscard]] bool is_sound() const {
    return port_up_.load(std::memory_order_acquire) && !damaged_.load(std::memory_order_acquire);
  }
  // For the datapath. Asks for a repair; the datapath must not touch the device until it is done.
  // Before that, take_let_go reports that the device has released all sends. take_let_go and
  // take_repaired each return true once.
  void ask_for_repair(VerbsDamage least);
  [[nodiscard]] bool take_let_go();
  [[nodiscard]] bool take_repaired();

  // Readable from a change until the next quiet().
  [[nodiscard]] int descriptor() const { return news_.get(); }
  void quiet();

 private:
  enum class State : std::uint8_t { none, asked, done };
  using Clock = std::chrono::steady_clock;

  void run();
  // How long to sleep while a repair is pending.
  [[nodiscard]] int retry_milliseconds() const;
  void listen();
  void serve();
  void take_from_device();
  [[nodiscard]] bool is_held() const { return damping_.left(clock_()) > Clock::duration::zero(); }
  void restore();
  void refused();
  void look_for_device();
  // Returns false if the device will send no more events.
  [[nodiscard]] bool read_events();
  void take(const ibv_async_event& event);
  // Checks whether the port has changed.
  void look_at_port();
  void damage(VerbsDamage least);
  void tell();

  VerbsRepair& repair_;
  std::function<Clock::time_point()> clock_;  // measures the damping
  Descriptor wake_;
  Descriptor news_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> port_up_{true};
  std::atomic<bool> damaged_{false};
  std::atomic<bool> has_news_{false};
  std::atomic<bool> let_go_{false};
  std::atomic<State> state_{State::none};
  std::atomic<VerbsDamage> asked_{VerbsDamage::none};

  // Used only by the thread.
  VerbsDamage damage_ = VerbsDamage::none;
  VerbsDamage taken_ = VerbsDamage::none;  // damage that take_from_device has handled
  unsigned refusals_ = 0;
  VerbsDamping damping_;
  bool repairing_ = false;
  int events_ = -1;  // the device's event descriptor
  bool is_up_ = true;
  bool look_ = false;
  Clock::time_point looked_at_{};
  std::thread thread_;
};

}  // namespace hawser::engine
