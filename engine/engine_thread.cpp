// SPDX-License-Identifier: Apache-2.0
#include "engine/engine_thread.hpp"

#include <algorithm>
#include <string>

#include "engine/background_thread.hpp"
#include "engine/cancellation.hpp"
#include "engine/clock.hpp"
#include "proto/base/assert.hpp"

namespace hawser::engine {

using proto::Time;
using proto::TurnResult;

EngineThread::EngineThread(const Tunables& tunables, unsigned index) : idle_(tunables) {
  sources_.add(bell_.descriptor());
  thread_ = start_background_thread("hawser-" + std::to_string(index), [this] { run(); });
}

EngineThread::~EngineThread() {
  const CancellationHold hold;
  {
    const std::lock_guard lock(mutex_);
    HAWSER_ASSERT(wanted_.empty(), "an endpoint outlives its engine");
    stop_ = true;
    changed_.store(true, std::memory_order_release);
  }
  ring();
  thread_.join();
}

void EngineThread::add(Served& served, std::span<const int> descriptors) {
  std::size_t added = 0;
  try {
    for (; added < descriptors.size(); ++added) sources_.add(descriptors[added]);
  } catch (...) {
    for (const int fd : descriptors.first(added)) sources_.remove(fd);
    throw;
  }
  change(served, true);
}

void EngineThread::remove(Served& served, std::span<const int> descriptors) noexcept {
  change(served, false);
  ignore(descriptors);
}

void EngineThread::ignore(std::span<const int> descriptors) noexcept {
  for (const int fd : descriptors) sources_.remove(fd);
}

std::size_t EngineThread::load() const {
  const std::lock_guard lock(mutex_);
  return wanted_.size();
}

// Returns when the thread has applied the change.
void EngineThread::change(Served& served, bool in) noexcept {
  const CancellationHold hold;
  std::unique_lock lock(mutex_);
  if (in) {
    wanted_.push_back(&served);
  } else {
    std::erase(wanted_, &served);
  }
  const std::uint64_t version = ++wanted_version_;
  changed_.store(true, std::memory_order_release);
  ring();
  applied_changed_.wait(lock, [&] { return applied_version_ >= version; });
}

bool EngineThread::take_changes() {
  const std::lock_guard lock(mutex_);
  changed_.store(false, std::memory_order_relaxed);
  served_ = wanted_;
  applied_version_ = wanted_version_;
  applied_changed_.notify_all();
  return !stop_;
}

void EngineThread::run() {
  for (;;) {
    if (changed_.load(std::memory_order_acquire) && !take_changes()) return;
    const Time now = monotonic_now();
    TurnResult all;
    for (Served* served : served_) {
      const TurnResult one = served->serve(now);
      all.progressed |= one.progressed;
      all.wake_at = proto::earlier(all.wake_at, one.wake_at);
    }
    if (all.progressed) {
      idle_.progressed();
    } else {
      pause(now, all.wake_at);
    }
  }
}

void EngineThread::pause(Time now, Time wake_at) {
  const IdleClock::Advice advice = idle_.pause(now);
  if (advice != IdleClock::Advice::block) {
    pause_briefly(advice, idle_);
    return;
  }
  bool look_again = false;
  for (Served* served : served_) look_again |= served->arm();
  if (look_again) return;
  const ArmedDoorbell bell(bell_);
  const bool work = changed_.load(std::memory_order_acquire) ||
                    std::ranges::any_of(served_, [](Served* s) { return s->has_commands(); });
  if (bell.is_armed() && !work) sources_.wait(now, wake_at);
}

}  // namespace hawser::engine
