// SPDX-License-Identifier: Apache-2.0
// How long a NIC that fails again and again is kept down.
//
// A failure by itself costs nothing: the NIC is back as soon as it is repaired. But one that fails
// whenever it is back would go down and up as fast as it can be repaired, and each time traffic is
// moved onto it, is lost there and sent again elsewhere, and every peer is told twice. So a failure
// soon after a return is followed by a hold, and each further one by twice as long a hold. All that
// it has worked in between counts for it.
//
// The hold is that of routers for links that flap (RFC 2439's for routes), but doubles instead of
// adding up penalties, as other back-offs here do. A port must have been up for as long as the hold
// is, like the `updelay` of Linux bonds; but not for ever, as a NIC that works at times may be all
// that its host has.
#pragma once

#include <algorithm>
#include <chrono>

namespace hawser::engine {

// Whoever uses it says what time it is, and that never goes back.
class VerbsDamping {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;
  using Duration = Clock::duration;

  // Many times what it takes to move traffic away and back (some round trips, and a timeout at
  // worst), and little enough for a NIC that fails a second time by chance.
  static constexpr Duration kFirst = std::chrono::milliseconds(100);
  // Of work that halve the next hold: the half-life that routers have for the flaps of a link.
  static constexpr Duration kForgiven = std::chrono::seconds(5);
  // And the longest for which they suppress one.
  static constexpr Duration kLongest = std::chrono::seconds(20);

  // No hold is longer than `longest`; none at all if it is zero.
  explicit VerbsDamping(Duration longest) : longest_(std::min(longest, kLongest)) {}

  // The NIC has failed: at work, or before it came so far.
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
  // Its port has come up, which it has to stay; the hold lasts twice as long at most.
  void port_came_up(Time now) { until_ = std::min(now + hold_, latest_); }
  // It is back.
  void came_up(Time now) { up_since_ = now; }

  // Until it may be back, since it has failed.
  [[nodiscard]] Duration left(Time now) const { return std::max(until_ - now, Duration::zero()); }

 private:
  Duration longest_;
  unsigned level_ = 0;  // failures that are not made good; a hold of the longest adds none
  Duration hold_{};     // after the last one
  Time up_since_{};
  Time until_{};
  Time latest_{};  // for `until_`
};

}  // namespace hawser::engine
