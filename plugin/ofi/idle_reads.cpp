// SPDX-License-Identifier: Apache-2.0
#include "plugin/ofi/idle_reads.hpp"

#include <sched.h>

namespace hawser::ofi {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

std::int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace

void IdleReads::begin() {
  const std::int64_t last = last_.load(kRelaxed);
  follows_.store(last != kNever && now() - last <= kClosely.count(), kRelaxed);
}

void IdleReads::pause() {
  const std::int64_t begin = now();
  last_.store(begin, kRelaxed);
  if (!follows_.load(kRelaxed)) {
    since_.store(begin, kRelaxed);
    return;
  }
  const unsigned contended = contended_.load(kRelaxed);
  if (contended == 0 && begin - since_.load(kRelaxed) < spin_.count()) return;

  ::sched_yield();
  const std::int64_t end = now();
  last_.store(end, kRelaxed);
  since_.store(end, kRelaxed);
  if (Nanos(end - begin) >= kLate) {
    contended_.store(kPrompt, kRelaxed);
  } else if (contended > 0) {
    contended_.store(contended - 1, kRelaxed);
  }
}

}  // namespace hawser::ofi
