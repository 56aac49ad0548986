// SPDX-License-Identifier: Apache-2.0
// One direction of a cable, with the queue in front of it: it serialises frames at its rate, and
// drops, marks, loses or spoils them.
//
// The queue needs no events of its own. A link is busy until a moment that every frame moves, and
// that moment alone says how much waits in the queue at any time.
#pragma once

#include <cstdint>

#include "proto/base/random.hpp"
#include "proto/base/time.hpp"

namespace hawser::sim {

struct LinkConfig {
  std::uint64_t bytes_per_s = 10'000'000'000;
  proto::Duration latency = proto::microseconds(1);
  std::uint64_t queue_bytes = 1 << 20;  // frames that don't fit are dropped
  std::uint64_t mark_bytes = 0;         // ECN: marked if more is waiting; 0: never
};

// Probabilities for each frame. Bursts follow Gilbert and Elliott: a frame enters the bad state
// with `burst_begin` and leaves it with `burst_end`, and all frames in it are lost.
struct LinkFaults {
  double loss = 0;
  double burst_begin = 0;
  double burst_end = 1;
  double duplicate = 0;
  double reorder = 0;  // held back for `reorder_delay`
  proto::Duration reorder_delay{};
  double straggle = 0;  // held back for long: half of `straggle_delay` to 3/2 of it
  proto::Duration straggle_delay{};
  double spike = 0;  // the whole link stands still for `spike_delay`
  proto::Duration spike_delay{};
  double corrupt = 0;   // one bit flips
  double truncate = 0;  // to any length
  double slowdown = 1;  // its rate is divided by that until `slow_until`
  proto::Time slow_until{};
  bool down = false;
};

struct LinkCounters {
  std::uint64_t frames = 0;
  std::uint64_t bytes = 0;
  std::uint64_t queue_drops = 0;
  std::uint64_t queue_drop_bytes = 0;
  std::uint64_t marked = 0;
  std::uint64_t lost = 0;
  std::uint64_t lost_in_bursts = 0;
  std::uint64_t lost_while_down = 0;
  std::uint64_t duplicated = 0;
  std::uint64_t reordered = 0;
  std::uint64_t stragglers = 0;
  std::uint64_t spikes = 0;
  std::uint64_t corrupted = 0;
  std::uint64_t truncated = 0;
};

class Link {
 public:
  Link(const LinkConfig& config, std::uint64_t seed) : config_(config), random_(seed) {}

  struct Passage {
    bool arrives = false;
    bool marked = false;
    bool duplicated = false;
    bool corrupted = false;
    bool truncated = false;
    proto::Time departs{};
    proto::Time arrival{};
    std::uint64_t dice = 0;  // chooses where it is corrupted or truncated
  };

  // A frame of this length enters the queue now.
  [[nodiscard]] Passage pass(proto::Time now, std::uint32_t bytes);
  [[nodiscard]] std::uint64_t waiting_bytes(proto::Time now) const;
  [[nodiscard]] proto::Time busy_until() const { return busy_until_; }

  LinkFaults faults;
  [[nodiscard]] const LinkCounters& counters() const { return counters_; }
  [[nodiscard]] const LinkConfig& config() const { return config_; }

 private:
  [[nodiscard]] bool dice(double chance) { return chance > 0 && random_.chance(chance); }
  // How long this many bytes take from `start` on, in picoseconds; how many bytes pass between two
  // times.
  [[nodiscard]] double service_ps(proto::Time start, double bytes) const;
  [[nodiscard]] double served_bytes(proto::Time start, proto::Time end) const;

  LinkConfig config_;
  proto::Random random_;
  proto::Time busy_until_{};
  std::int64_t busy_ps_ = 0;  // beyond the nanosecond, so that rates are exact
  bool in_burst_ = false;
  LinkCounters counters_;
};

}  // namespace hawser::sim
