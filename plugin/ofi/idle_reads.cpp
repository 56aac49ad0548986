#include "plugin/ofi/idle_reads.hpp"

#include <sched.h>

#include <algorithm>

namespace hawser::ofi {
namespace {

std::int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace

void IdleReads::pause() {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  const std::int64_t begin = now();
  const std::int64_t last = last_.load(kRelaxed);
  const unsigned contended = contended_.load(kRelaxed);
  if (last == kNever || begin - last > kClosely.count()) {
    since_.store(begin, kRelaxed);
    last_.store(begin, kRelaxed);
    return;
  }
  if (contended == 0 && begin - since_.load(kRelaxed) < patience_.load(kRelaxed)) {
    last_.store(begin, kRelaxed);
    return;
  }
  ::sched_yield();
  const std::int64_t end = now();
  last_.store(end, kRelaxed);
  since_.store(end, kRelaxed);
  const Nanos took(end - begin);
  patience_.store(
      took < kComputes ? spin_.count() : std::max(spin_, std::min(took, kMostPatience)).count(),
      kRelaxed);
  if (took >= kComputes) {
    contended_.store(0, kRelaxed);
  } else if (took >= kLate) {
    contended_.store(kPrompt, kRelaxed);
  } else if (contended > 0) {
    contended_.store(contended - 1, kRelaxed);
  }
}

}  // namespace hawser::ofi
