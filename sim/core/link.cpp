// SPDX-License-Identifier: Apache-2.0
#include "sim/core/link.hpp"

#include <algorithm>

namespace hawser::sim {

namespace {
constexpr std::int64_t kPicoseconds = 1000;  // in a nanosecond
constexpr double kPsPerSecond = 1e12;
constexpr double kPsPerNs = 1e3;
}  // namespace

// Frames still waiting when the slow time ends go at the full rate from then on.
double Link::service_ps(proto::Time start, double bytes) const {
  const double full = kPsPerSecond / static_cast<double>(config_.bytes_per_s);
  const double slow = full * faults.slowdown;
  if (start >= faults.slow_until) return bytes * full;
  const double left = kPsPerNs * static_cast<double>((faults.slow_until - start).ns);
  const double served = std::min(bytes, left / slow);
  return served * slow + (bytes - served) * full;
}

double Link::served_bytes(proto::Time start, proto::Time end) const {
  const double full = static_cast<double>(config_.bytes_per_s) * 1e-9;
  const proto::Time slow_end = std::clamp(faults.slow_until, start, end);
  return full * (static_cast<double>((slow_end - start).ns) / faults.slowdown +
                 static_cast<double>((end - slow_end).ns));
}

std::uint64_t Link::waiting_bytes(proto::Time now) const {
  if (busy_until_ <= now) return 0;
  return static_cast<std::uint64_t>(served_bytes(now, busy_until_));
}

Link::Passage Link::pass(proto::Time now, std::uint32_t bytes) {
  Passage passage;
  passage.departs = now;
  if (faults.down) {
    ++counters_.lost_while_down;
    return passage;
  }
  const std::uint64_t waiting = waiting_bytes(now);
  if (waiting + bytes > config_.queue_bytes) {
    ++counters_.queue_drops;
    counters_.queue_drop_bytes += bytes;
    return passage;
  }
  ++counters_.frames;
  counters_.bytes += bytes;
  if (config_.mark_bytes > 0 && waiting > config_.mark_bytes) {
    passage.marked = true;
    ++counters_.marked;
  }
  if (busy_until_ < now) {
    busy_until_ = now;
    busy_ps_ = 0;
  }
  if (dice(faults.spike)) {
    busy_until_ = busy_until_ + faults.spike_delay;
    ++counters_.spikes;
  }
  busy_ps_ += static_cast<std::int64_t>(service_ps(busy_until_, bytes));
  busy_until_ = busy_until_ + proto::Duration{busy_ps_ / kPicoseconds};
  busy_ps_ %= kPicoseconds;
  passage.departs = busy_until_;
  passage.arrival = busy_until_ + config_.latency;

  in_burst_ = in_burst_ ? !dice(faults.burst_end) : dice(faults.burst_begin);
  if (in_burst_) {
    ++counters_.lost_in_bursts;
    return passage;
  }
  if (dice(faults.loss)) {
    ++counters_.lost;
    return passage;
  }
  passage.arrives = true;
  if (dice(faults.reorder)) {
    passage.arrival = passage.arrival + faults.reorder_delay;
    ++counters_.reordered;
  }
  if (dice(faults.straggle)) {
    passage.arrival = passage.arrival + random_.jitter(faults.straggle_delay);
    ++counters_.stragglers;
  }
  passage.duplicated = dice(faults.duplicate);
  counters_.duplicated += passage.duplicated;
  passage.corrupted = dice(faults.corrupt);
  counters_.corrupted += passage.corrupted;
  passage.truncated = dice(faults.truncate);
  counters_.truncated += passage.truncated;
  if (passage.corrupted || passage.truncated) passage.dice = random_.next();
  return passage;
}

}  // namespace hawser::sim
