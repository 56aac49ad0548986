// SPDX-License-Identifier: Apache-2.0
// A thread that makes the progress of endpoints: the poll loop. It reads the clock once a turn,
// serves all its endpoints, and when none has anything to do it spins, yields, then sleeps until a
// NIC has something, an endpoint's deadline comes or somebody rings.
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

// What an engine thread serves. All calls are made by that thread.
class Served {
 public:
  virtual ~Served() = default;
  virtual proto::TurnResult serve(proto::Time now) = 0;
  // Something has come from other threads since the last turn.
  [[nodiscard]] virtual bool has_commands() const = 0;
  // Before the thread blocks. True: something may have come, so it must serve once more first.
  [[nodiscard]] virtual bool arm() = 0;
};

class EngineThread {
 public:
  // Throws hawser::Error.
  EngineThread(const Tunables& tunables, unsigned index);
  // Serves nothing any more.
  ~EngineThread();
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

  // Any thread. From here on `served` belongs to the engine thread, until remove has returned.
  // `descriptors` become readable when it has something. Throws hawser::Error, and nothing is
  // added.
  void add(Served& served, std::span<const int> descriptors);
  void remove(Served& served, std::span<const int> descriptors) noexcept;
  [[nodiscard]] std::size_t load() const;  // how many it serves

  // Any thread: there is something to do.
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

  mutable std::mutex mutex_;  // over what follows
  std::condition_variable applied_changed_;
  std::vector<Served*> wanted_;
  std::uint64_t wanted_version_ = 0;
  std::uint64_t applied_version_ = 0;
  bool stop_ = false;
  std::atomic<bool> changed_{false};

  std::thread thread_;  // last: starts when all else is there
};

}  // namespace hawser::engine
