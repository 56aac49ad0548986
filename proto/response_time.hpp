// The response time of a path or a peer: smoothed round trip, variance and latest (RFC 6298, RFC
// 9002 §5), measured from departure to the processing of the answer, the absences of both hosts
// included. Loss timers derive from it, so that a busy host looks slow, not dead.
#pragma once

#include <algorithm>

#include "proto/time.hpp"

namespace hawser::proto {

class ResponseTime {
 public:
  ResponseTime() = default;
  // As it was when it was put aside: the next sample counts as one of many.
  ResponseTime(Duration smoothed, Duration variance)
      : smoothed_(smoothed), variance_(variance), latest_(std::max(smoothed, Duration{1})) {}
  explicit ResponseTime(Duration initial) : smoothed_(initial), variance_(initial / 2) {}

  void sample(Duration rtt) {
    if (rtt < Duration{1}) rtt = Duration{1};
    const bool is_first = !sampled();
    latest_ = rtt;
    if (is_first) {
      smoothed_ = rtt;
      variance_ = rtt / 2;
      return;
    }
    // A single long absence of a host is not the measure of what comes after it: a sample counts at
    // most twice what was overdue. A host that stays slow gets there in a few samples.
    const Duration most = std::max((smoothed_ + variance_ * 4) * 2, kNoAbsence);
    if (most < rtt) rtt = most;
    const Duration error = rtt < smoothed_ ? smoothed_ - rtt : rtt - smoothed_;
    variance_ = (variance_ * 3 + error) / 4;
    smoothed_ = (smoothed_ * 7 + rtt) / 8;
  }

  [[nodiscard]] bool sampled() const { return latest_ > Duration{}; }
  [[nodiscard]] Duration smoothed() const { return smoothed_; }
  [[nodiscard]] Duration variance() const { return variance_; }
  [[nodiscard]] Duration latest() const { return sampled() ? latest_ : smoothed_; }

  // SRTT + max(4 RTTVAR, granularity): when an answer that was not delayed on purpose is overdue.
  [[nodiscard]] Duration overdue(Duration granularity) const {
    const Duration spread = variance_ * 4;
    return smoothed_ + (spread < granularity ? granularity : spread);
  }

 private:
  static constexpr Duration kNoAbsence = microseconds(100);

  Duration smoothed_{};
  Duration variance_{};
  Duration latest_{};  // 0: there was no sample
};

}  // namespace hawser::proto
