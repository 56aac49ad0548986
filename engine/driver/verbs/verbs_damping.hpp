// SPDX-License-Identifier: Apache-2.0
// Decides how long a NIC that fails repeatedly is kept down.
//
// A single failure costs nothing: the NIC is back as soon as it is repaired. A NIC that fails
// whenever it is back, however, would go down and up as fast as it can be repaired. Each time,
// traffic would move onto it, be lost there and be retransmitted elsewhere, and every peer would be
// told twice. A failure soon after a return is therefore followed by a hold. Each further failure
// doubles the hold, and time of good work reduces it.
//
// Routers damp flapping links (RFC 2439 does it for routes) in the same way. The hold here doubles
// instead of adding up penalties, like other back-offs in Hawser. A port must have been up for as
// long as the hold, like the `updelay` of Linux bonds. There is a limit, because a NIC that works
// at times may be the only one of its host.
#pragma once

#include <algorithm>
#include <chrono>

namespace hawser::engine {

// Its user passes the time, which never goes back.
class VerbsDamping {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;
  using Duration = Clock::duration;

  // Many times the time that it takes to move traffic away and back (some round trips, and a
  // timeout at worst). Short enough for a NIC that fails a second time by chance.
  static constexpr Duration kFirst = std::chrono::milliseconds(100);
  // This much good work halves the next hold. It is the half-life that routers use for link flaps.
  static constexpr Duration kForgiven = std::chrono::seconds(5);
  // The longest hold, as long as routers suppress a link at most.
  static constexpr Duration kLongest = std::chrono::seconds(20);

  // No hold is longer than `longest`. If that is zero, there are no holds.
  explicit VerbsDamping(Duration longest) : longest_(std::min(longest, kLongest)) {}

  // The NIC has failed, at work or before it was back.
  void failed(Time now) {
    for (Duration worked = now - up_since_; level_ > 0 && worked >= kForgiven;
         worked -= kForgiven) {
      --level_;
    }
    hold_ = level_ == 0 ? Duration::zero() : std::min(longest_, kFirst * (1 << (level_ - 1)));
    if (hold_ < longest_) ++level_;
    until_ = now + hold_;
    latest_ = until_ + hold_;
  }
  // Its port has come up, and must stay up for the hold. The whole wait is at most twice the hold.
  void port_came_up(Time now) { until_ = std::min(now + hold_, latest_); }
  // The NIC is back.
  void came_up(Time now) { up_since_ = now; }

  // Remaining time until the NIC may be back.
  [[nodiscard]] Duration left(Time now) const { return std::max(until_ - now, Duration::zero()); }

 private:
  Duration longest_;
  unsigned level_ = 0;  // failures not yet forgiven; one at the longest hold adds none
  Duration hold_{};     // after the last failure
  Time up_since_{};
  Time until_{};
  Time latest_{};  // upper bound of `until_`
};

}  // namespace hawser::engine
