// SPDX-License-Identifier: Apache-2.0
// The response time of a path or a peer: smoothed round trip, variance and latest (RFC 6298, RFC
// 9002 §5). It runs from departure to the processing of the answer, and includes the absences of
// both hosts. Loss timers derive from it, so that a busy host looks slow, not dead.
#pragma once

#include <algorithm>
#include <cstdint>

#include "proto/base/time.hpp"

namespace hawser::proto {

class ResponseTime {
 public:
  ResponseTime() = default;
  // Restored from a record: the next sample counts as one of many.
  ResponseTime(Duration smoothed, Duration variance)
      : smoothed_(smoothed),
        variance_(kept(variance)),
        latest_(kept(std::max(smoothed, Duration{1}))) {}
  explicit ResponseTime(Duration initial) : smoothed_(initial), variance_(kept(initial / 2)) {}

  void sample(Duration rtt) {
    if (rtt < Duration{1}) rtt = Duration{1};
    const bool is_first = !sampled();
    before_last_ = last_;
    last_ = is_first ? std::uint16_t{0} : roughly(latest_);
    latest_ = kept(rtt);
    if (is_first) {
      smoothed_ = rtt;
      variance_ = kept(rtt / 2);
      return;
    }
    rtt = std::min(rtt, longest_believed());
    const Duration error = rtt < smoothed_ ? smoothed_ - rtt : rtt - smoothed_;
    variance_ = kept((variance() * 3 + error) / 4);
    smoothed_ = (smoothed_ * 7 + rtt) / 8;
  }

  // The first sample of a path counts as `most` at most. If it is cut, or as long as an absence,
  // the answers that follow show the same absence.
  void sample_first(Duration rtt, Duration most, Time now) {
    if (std::min(most, kAway) < rtt) absence_at_ = fine(now);
    sample(std::min(rtt, most));
  }

  // A sample during which a host was away. The absence delays all packets in flight, and each of
  // their answers shows it again. If it was no usual absence, a sample therefore counts only if its
  // packet left after the last such sample was taken.
  void sample_absence(Duration rtt, Time now) {
    if (kAway < rtt) {
      // In units that wrap: it left before absence_at_, which is not after `now`.
      const std::uint32_t left = fine(now - rtt);
      if (sampled() && absence_at_ - left - 1 < fine(now) - left) {
        latest_ = kept(rtt);
        return;
      }
      absence_at_ = fine(now);
    }
    sample(rtt);
  }

  [[nodiscard]] bool sampled() const { return latest_ > 0; }
  [[nodiscard]] Duration smoothed() const { return smoothed_; }
  [[nodiscard]] Duration variance() const { return Duration{variance_}; }
  [[nodiscard]] Duration latest() const { return sampled() ? Duration{latest_} : smoothed_; }

  // SRTT + max(4 RTTVAR, granularity): when an answer that was not delayed on purpose is overdue.
  [[nodiscard]] Duration overdue(Duration granularity) const {
    const Duration spread = variance() * 4;
    return smoothed_ + (spread < granularity ? granularity : spread);
  }

  // The same for a caller that asks first and trusts only answers. With few samples, an old absence
  // may dominate SRTT, and RTTVAR shows how much shorter the later samples were. Therefore the time
  // is limited to a few times the recent samples, or to a usual absence of hosts.
  [[nodiscard]] Duration unanswered(Duration granularity) const {
    const Duration lately = usual();
    const Duration longest = overdue(granularity);
    return lately == Duration{} ? longest : std::min(longest, std::max(lately * kFew, kAway));
  }

 private:
  static constexpr Duration kNoAbsence = microseconds(100);
  static constexpr std::int64_t kFew = 4;
  static constexpr Duration kAway = milliseconds(20);
  static constexpr std::int64_t kRough = 1 << 16;  // ns

  static std::uint32_t kept(Duration sample) {  // up to 4.3 s
    return static_cast<std::uint32_t>(std::min<std::int64_t>(sample.ns, UINT32_MAX));
  }

  // Rounded up, so that a sample is never 0.
  static std::uint16_t roughly(std::uint32_t sample) {
    return static_cast<std::uint16_t>(
        std::min<std::uint64_t>((std::uint64_t{sample} + kRough - 1) / kRough, UINT16_MAX));
  }

  // A single long absence of a host says nothing about later samples. Therefore a sample counts at
  // most as twice the overdue time. A host that stays slow gets there in a few round trips.
  [[nodiscard]] Duration longest_believed() const {
    return std::max((smoothed_ + variance() * 4) * 2, kNoAbsence);
  }

  // The median of the last three samples, or the shorter of two: one absence does not change it. 0
  // if there are fewer.
  [[nodiscard]] Duration usual() const {
    const auto [low, high] = std::minmax({roughly(latest_), last_});
    return Duration{kRough * std::clamp(before_last_, low, high)};
  }

  Duration smoothed_{};
  std::uint32_t variance_ = 0;  // ns
  std::uint32_t latest_ = 0;    // the last sample, in ns; 0: there was none
  // The two samples before it, in units of kRough; 0: there was none. They only limit times, to
  // kAway at least.
  std::uint16_t last_ = 0;
  std::uint16_t before_last_ = 0;
  // When the last sample was taken that counted for an absence, as `fine` says it.
  std::uint32_t absence_at_ = 0;
};
static_assert(sizeof(ResponseTime) <= 24, "each of thousands of paths has one");

}  // namespace hawser::proto
