// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/fault/fault_judge.hpp"

#include <algorithm>
#include <array>

namespace hawser::engine {

using proto::Duration;
using proto::Time;

void FaultJudge::set(const DirectionFaults& faults) {
  if (faults.burst_enter <= 0) bad_ = false;
  faults_ = faults;
  idle_ = !faults.blackhole && faults.loss <= 0 && faults.burst_enter <= 0 &&
          faults.duplicate <= 0 && faults.reorder <= 0 && faults.delay.ns <= 0 &&
          faults.jitter.ns <= 0 && faults.corrupt <= 0 && faults.truncate <= 0 &&
          faults.rate_bytes_per_s == 0;
}

bool FaultJudge::lost() {
  if (faults_.blackhole) return true;
  bool lost = hits(faults_.loss);
  if (faults_.burst_enter > 0) {
    if (hits(bad_ ? faults_.burst_leave : faults_.burst_enter)) bad_ = !bad_;
    if (bad_ && hits(faults_.burst_loss)) lost = true;
  }
  return lost;
}

// A token bucket and the queue before it, kept as one number: the time at which the link will have
// sent all that it accepted. Returns false if the queue is full.
bool FaultJudge::queue_on_link(std::uint64_t bytes, Time now, Duration& wait) {
  const std::uint64_t rate = faults_.rate_bytes_per_s;
  const auto time_of = [rate](std::uint64_t n) {
    return proto::nanoseconds(n * 1'000'000'000 / rate);
  };
  const Time start = proto::later(link_free_at_, now - time_of(kRateBurstBytes));
  if (start - now > time_of(kRateQueueBytes)) return false;
  link_free_at_ = start + time_of(bytes);
  wait = link_free_at_ > now ? link_free_at_ - now : Duration{};
  return true;
}

Fate FaultJudge::judge(std::uint64_t bytes, Time now) {
  Fate fate;
  if (lost()) {
    fate.drop = true;
    return fate;
  }
  if (faults_.rate_bytes_per_s > 0 && !queue_on_link(bytes, now, fate.delay)) {
    fate.drop = true;
    return fate;
  }
  fate.duplicate = hits(faults_.duplicate);
  fate.corrupt = hits(faults_.corrupt);
  fate.truncate = bytes > 1 && hits(faults_.truncate);
  fate.delay = fate.delay + faults_.delay;
  if (faults_.jitter.ns > 0) {
    fate.delay.ns +=
        static_cast<std::int64_t>(below(static_cast<std::uint64_t>(faults_.jitter.ns) + 1));
  }
  if (hits(faults_.reorder)) fate.overtaken_by = faults_.reorder_depth;
  return fate;
}

void FaultJudge::flip_bits(std::span<std::byte> datagram) {
  const std::uint64_t bits = datagram.size() * 8;
  if (bits == 0) return;
  std::array<std::uint64_t, 3> flipped;
  const std::uint64_t draws = 1 + below(flipped.size());
  std::size_t count = 0;
  for (std::uint64_t i = 0; i < draws; ++i) {
    const std::uint64_t bit = below(bits);
    const auto end = flipped.begin() + static_cast<std::ptrdiff_t>(count);
    if (std::find(flipped.begin(), end, bit) != end) continue;  // a second flip would undo it
    flipped[count++] = bit;
    datagram[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

std::uint32_t FaultJudge::shorter(std::uint32_t bytes) {
  return bytes < 2 ? bytes : 1 + static_cast<std::uint32_t>(below(bytes - 1));
}

}  // namespace hawser::engine
