#include "plugin/ofi/idle_reads.hpp"

#include <sched.h>

#include <algorithm>
#include <utility>

namespace hawser::ofi {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

// Whose reads this thread called last.
thread_local const IdleReads* last_read = nullptr;

std::int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace

void IdleReads::found() {
  last_read = this;
  last_.store(kNever, kRelaxed);
}

IdleReads::Advice IdleReads::advise() {
  const bool reads_this_alone = std::exchange(last_read, this) == this;
  const std::int64_t begin = now();
  const std::int64_t last = last_.exchange(begin, kRelaxed);
  const unsigned left = blocks_left_.load(kRelaxed);
  if (last == kNever || begin - last > kClosely.count()) {
    since_.store(begin, kRelaxed);
    return Advice::read_on;
  }
  if (left > 0) {
    if (!reads_this_alone) return Advice::yield;
    blocks_left_.store(left - 1, kRelaxed);
    return Advice::block;
  }
  return begin - since_.load(kRelaxed) < spin_.count() ? Advice::read_on : Advice::yield;
}

void IdleReads::yield() {
  const std::int64_t begin = now();
  ::sched_yield();
  begin_anew();
  if (Nanos(last_.load(kRelaxed) - begin) < kLate) {
    blocks_granted_.store(kFewBlocks, kRelaxed);
    return;
  }
  const unsigned granted = blocks_granted_.load(kRelaxed);
  blocks_left_.store(granted, kRelaxed);
  blocks_granted_.store(std::min(2 * granted, kManyBlocks), kRelaxed);
}

void IdleReads::begin_anew() {
  const std::int64_t end = now();
  last_.store(end, kRelaxed);
  since_.store(end, kRelaxed);
}

}  // namespace hawser::ofi
