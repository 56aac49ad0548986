// What a verbs NIC does beside its datapath, in a thread that sleeps: making address handles,
// listening to the device's events, bringing queue pairs back that have failed.
//
// The datapath leaves work and calls wake(), which is a system call and rare; what it asks for
// itself, at every turn, is a load of an atomic.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

#include "engine/descriptor.hpp"
#include "engine/driver/verbs_destinations.hpp"
#include "engine/driver/verbs_port.hpp"

namespace hawser::engine {

class VerbsHelper {
 public:
  // `repair` resets the queue pairs and makes them ready again; false: not now. Both outlive this,
  // as does `port`. Throws Error.
  VerbsHelper(const VerbsPort& port, VerbsDestinations& destinations, std::function<bool()> repair);
  ~VerbsHelper();
  VerbsHelper(const VerbsHelper&) = delete;
  VerbsHelper& operator=(const VerbsHelper&) = delete;

  // Ends the thread.
  void stop();

  // Any thread.
  void wake() const;
  [[nodiscard]] bool is_port_up() const { return port_up_.load(std::memory_order_acquire); }
  // Whether the device has said that a queue pair or a completion queue has failed, once. The
  // latter can't be brought back.
  [[nodiscard]] bool take_failure() {
    return failed_.load(std::memory_order_relaxed) &&
           failed_.exchange(false, std::memory_order_acquire);
  }
  [[nodiscard]] bool has_dead_queue() const { return dead_queue_.load(std::memory_order_acquire); }

  // The datapath asks for a repair, and may touch no queue pair until it is done. Then it takes
  // note, once.
  void ask_for_repair();
  [[nodiscard]] bool take_repaired();

  // Readable after a change; until the next quiet().
  [[nodiscard]] int descriptor() const { return news_.get(); }
  void quiet();

 private:
  enum class Repair : std::uint8_t { none, asked, done };

  void run();
  // True if something has to be tried again in a while.
  [[nodiscard]] bool serve(bool retry);
  // False if the device will have none any more.
  [[nodiscard]] bool read_events();
  void take(const ibv_async_event& event);
  void tell();

  const VerbsPort& port_;
  VerbsDestinations& destinations_;
  std::function<bool()> repair_;
  Descriptor wake_;
  Descriptor news_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> port_up_{true};
  std::atomic<bool> has_news_{false};
  std::atomic<bool> failed_{false};
  std::atomic<bool> dead_queue_{false};
  std::atomic<Repair> repair_state_{Repair::none};
  std::thread thread_;
};

}  // namespace hawser::engine
