// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/verbs/verbs_resolver.hpp"

#include <algorithm>

#include "engine/background_thread.hpp"
#include "engine/driver/event_descriptor.hpp"

namespace hawser::engine {
namespace {

using Clock = VerbsDestinations::Clock;

// Rounded up, because a thread that wakes early finds nothing due.
int milliseconds_until(Clock::time_point next) {
  if (next == Clock::time_point::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
}

}  // namespace

VerbsResolver::VerbsResolver(const std::string& nic, VerbsDestinations& destinations)
    : destinations_(destinations),
      wake_first_(make_event_descriptor(nic)),
      wake_retrying_(make_event_descriptor(nic)) {
  try {
    for (unsigned i = 0; i < kThreads; ++i) {
      threads_.push_back(
          start_background_thread("hawser-resolver", [this, i] { run(i < kRetrying); }));
    }
  } catch (...) {
    stop();
    throw;
  }
}

VerbsResolver::~VerbsResolver() { stop(); }

void VerbsResolver::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  wake();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void VerbsResolver::wake() const {
  raise_event(wake_first_.get());
  raise_event(wake_retrying_.get());
}

void VerbsResolver::pause() {
  std::unique_lock lock(mutex_);
  paused_ = true;
  changed_.wait(lock, [this] { return active_ == 0; });
}

void VerbsResolver::resume() {
  {
    const std::lock_guard lock(mutex_);
    paused_ = false;
  }
  changed_.notify_all();
  wake();
}

bool VerbsResolver::enter() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stopping_ || !paused_; });
  if (stopping_) {
    wake();  // wakes the other threads, too
    return false;
  }
  ++active_;
  return true;
}

void VerbsResolver::leave() {
  {
    const std::lock_guard lock(mutex_);
    --active_;
  }
  changed_.notify_all();
}

void VerbsResolver::run(bool retries) {
  const int own = (retries ? wake_retrying_ : wake_first_).get();
  for (;;) {
    // Lower it before looking, also before the end: later work raises it again. A thread that has
    // found work raises it, so that another thread looks for more while this one is busy.
    lower_event(own);
    if (!enter()) return;
    const auto looked = destinations_.serve(retries, Clock::now(), [this] { wake(); });
    leave();
    // Retrying threads may have looked before there was anything to retry.
    if (looked.failed && !retries) raise_event(wake_retrying_.get());
    if (!looked.found) wait_for_event(own, milliseconds_until(looked.next));
  }
}

}  // namespace hawser::engine
