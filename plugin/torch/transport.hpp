// SPDX-License-Identifier: Apache-2.0
// The endpoint that all process groups of a process share, and the threads that make its progress.
//
// Whoever waits for an operation makes progress, so that a waiting program needs no switch between
// threads. A thread in the background does it when nobody waits. One mutex guards the endpoint, the
// router and all communicators.
//
// A thread that destroys a tensor may need Python's lock, and a thread that has Python's lock may
// want this mutex. Nobody destroys tensors under it, therefore: they are thrown away, and destroyed
// when the mutex is free again.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "hawser/collectives.hpp"
#include "hawser/engine.hpp"

namespace hawser::torch_plugin {

using Clock = std::chrono::steady_clock;

// The ranks of a world share it, and nobody else has it.
struct Secret {
  std::array<std::byte, 32> key{};
  std::uint64_t mark = 0;  // of this secret; anyone may see it
};

// A process group that has operations on the transport. All calls are made with a Guard.
class Client {
 public:
  virtual ~Client() = default;
  // After each turn.
  virtual void advance() = 0;
  // The transport ends. Destroys the communicator, and ends every operation.
  virtual void release() = 0;
};

class Transport {
 public:
  // The one of this process. It is made when the first group asks for it, with that group's secret,
  // and ends with the last group. Throws Error.
  [[nodiscard]] static std::shared_ptr<Transport> of_process(const Secret& secret);
  // The one that there is. Throws Error if there is none.
  [[nodiscard]] static std::shared_ptr<Transport> existing();
  // Ends the transport of this process, if there is one. Groups of it fail from then on.
  static void end_of_process();

  explicit Transport(const Secret& secret);
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // Holds the mutex. Its end destroys what was thrown away meanwhile.
  class Guard {
   public:
    explicit Guard(Transport& transport) : transport_(transport), lock_(transport.mutex_) {}
    ~Guard() { garbage_.swap(transport_.garbage_); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    Transport& transport_;
    std::vector<std::shared_ptr<void>> garbage_;
    std::unique_lock<std::mutex> lock_;  // the last member: it ends first
  };

  // ---- with a Guard
  // Null after the end.
  [[nodiscard]] coll::CompletionRouter* router() noexcept { return router_.get(); }
  [[nodiscard]] Endpoint& endpoint() noexcept { return *endpoint_; }
  void add(Client& client);
  void remove(Client& client);
  void throw_away(std::shared_ptr<void> thing) { garbage_.push_back(std::move(thing)); }
  // As throw_away, but first awaits the end of all operations whose communicator has gone.
  void keep(std::shared_ptr<void> buffers) { kept_.push_back(std::move(buffers)); }
  [[nodiscard]] std::uint64_t mark() const noexcept { return mark_; }
  // The lowest id that none of this process's communicators has had.
  [[nodiscard]] std::uint32_t next_id() const noexcept { return next_id_; }
  void note_id(std::uint32_t id) noexcept { next_id_ = std::max(next_id_, id + 1); }

  // ---- without one
  // One turn.
  void make_progress();
  // Makes progress until `done`, which is called without the mutex. False: `deadline` came first.
  [[nodiscard]] bool wait_until(const std::function<bool()>& done, Clock::time_point deadline);
  // For operations that nobody waits for here: the background thread makes progress at once.
  void wake();
  // Words of hawser/faults.hpp for a NIC, from 0. Throws Error.
  void inject_fault(std::size_t nic, const std::string& words);
  [[nodiscard]] std::vector<NicStats> nics();

 private:
  void turn();
  [[nodiscard]] bool others_make_progress() const;
  void run_in_background();
  void end();

  std::mutex mutex_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Endpoint> endpoint_;
  std::unique_ptr<coll::CompletionRouter> router_;
  std::vector<Client*> clients_;
  std::vector<std::shared_ptr<void>> garbage_;
  std::vector<std::shared_ptr<void>> kept_;
  std::uint32_t next_id_ = 1;
  const std::uint64_t mark_;

  std::atomic<int> waiters_{0};
  std::atomic<Clock::rep> last_waited_{0};  // 0: the background thread need not hold back
  std::atomic<bool> stops_{false};
  std::mutex nap_mutex_;
  std::condition_variable nap_;
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace hawser::torch_plugin
