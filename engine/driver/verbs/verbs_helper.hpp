// SPDX-License-Identifier: Apache-2.0
// What a verbs NIC does beside its datapath, in a thread that sleeps: listening to the device's
// events, and bringing back what has failed: at once, or if it fails again and again after a hold
// (verbs_damping.hpp). Address handles have threads of their own (verbs_resolver.hpp), as making
// them blocks.
//
// What is asked of it at every turn is a load of an atomic.
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

  // The datapath. Whether the NIC may work, as far as its port and its device say: false until a
  // repair if anything of it has failed, or its address is another one.
  [[nodiscard]] bool is_sound() const {
    return port_up_.load(std::memory_order_acquire) && !damaged_.load(std::memory_order_acquire);
  }
  // The datapath asks for a repair, and touches nothing of the device until it is done. At some
  // time before the device has let go of all sends. It takes note of each once.
  void ask_for_repair(VerbsDamage least);
  [[nodiscard]] bool take_let_go();
  [[nodiscard]] bool take_repaired();

  // Readable after a change; until the next quiet().
  [[nodiscard]] int descriptor() const { return news_.get(); }
  void quiet();

 private:
  enum class State : std::uint8_t { none, asked, done };
  using Clock = std::chrono::steady_clock;

  void run();
  // How long to sleep while a repair is asked for.
  [[nodiscard]] int retry_milliseconds() const;
  void listen();
  void serve();
  void take_from_device();
  [[nodiscard]] bool is_held() const { return damping_.left(clock_()) > Clock::duration::zero(); }
  void restore();
  void refused();
  void look_for_device();
  // False if the device will have none any more.
  [[nodiscard]] bool read_events();
  void take(const ibv_async_event& event);
  // The port may be another one than before.
  void look_at_port();
  void damage(VerbsDamage least);
  void tell();

  VerbsRepair& repair_;
  std::function<Clock::time_point()> clock_;  // of the damping
  Descriptor wake_;
  Descriptor news_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> port_up_{true};
  std::atomic<bool> damaged_{false};
  std::atomic<bool> has_news_{false};
  std::atomic<bool> let_go_{false};
  std::atomic<State> state_{State::none};
  std::atomic<VerbsDamage> asked_{VerbsDamage::none};

  // The thread's.
  VerbsDamage damage_ = VerbsDamage::none;
  VerbsDamage taken_ = VerbsDamage::none;  // by as much
  unsigned refusals_ = 0;
  VerbsDamping damping_;
  bool repairing_ = false;
  int events_ = -1;  // the device's descriptor
  bool is_up_ = true;
  bool look_ = false;
  Clock::time_point looked_at_{};
  std::thread thread_;
};

}  // namespace hawser::engine
