// SPDX-License-Identifier: Apache-2.0
// A thread that makes the progress of endpoints: the poll loop. It reads the clock once a turn and
// serves all its endpoints. When none of them has work, it spins, yields, then sleeps. It wakes
// when a NIC has received something, at the next deadline, or when a thread rings.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "engine/doorbell.hpp"
#include "engine/idle_clock.hpp"
#include "engine/poll_set.hpp"
#include "proto/endpoint.hpp"

namespace hawser::engine {

// An object that an engine thread serves. That thread makes all the calls.
class Served {
 public:
  virtual ~Served() = default;
  virtual proto::TurnResult serve(proto::Time now) = 0;
  // True if other threads have posted something since the last turn.
  [[nodiscard]] virtual bool has_commands() const = 0;
  // Called before the thread blocks. True: something may have arrived, so the thread must serve
  // once more.
  [[nodiscard]] virtual bool arm() = 0;
};

class EngineThread {
 public:
  // Throws hawser::Error.
  EngineThread(const Tunables& tunables, unsigned index);
  // Requires that it serves nothing any more.
  ~EngineThread();
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

  // For any thread. `served` belongs to the engine thread from add until remove has returned.
  // `descriptors` become readable when it has work. If add throws hawser::Error, nothing is added.
  void add(Served& served, std::span<const int> descriptors);
  void remove(Served& served, std::span<const int> descriptors) noexcept;
  // From here on `descriptors` no longer wake the thread, which still serves their endpoint.
  void ignore(std::span<const int> descriptors) noexcept;
  [[nodiscard]] std::size_t load() const;  // the number of endpoints that it serves

  // For any thread: wakes the engine thread, because there is work.
  void ring() noexcept { bell_.ring(); }

 private:
  void run();
  [[nodiscard]] bool take_changes();  // false: stop
  void pause(proto::Time now, proto::Time wake_at);
  void change(Served& served, bool in) noexcept;

  IdleClock idle_;
  Doorbell bell_;
  PollSet sources_;
  std::vector<Served*> served_;  // the thread's own

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable applied_changed_;
  std::vector<Served*> wanted_;
  std::uint64_t wanted_version_ = 0;
  std::uint64_t applied_version_ = 0;
  bool stop_ = false;
  std::atomic<bool> changed_{false};

  std::thread thread_;  // last: starts when all else is there
};

}  // namespace hawser::engine
