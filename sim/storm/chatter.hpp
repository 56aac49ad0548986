// SPDX-License-Identifier: Apache-2.0
// Checks that endpoints probe their paths only when a timer says so: an answer is no reason to
// probe again. The check measures how long a number of probes in a row took. Occasional other
// probes (silence elsewhere, a new binding, a keepalive) are too few to shorten that time enough.
// A fragment that is lost may be what a probe of each path was for: they don't count.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "hawser/trace.hpp"
#include "proto/base/time.hpp"

namespace hawser::sim {

// The probes of one process.
class Chatter {
 public:
  void restart() { asked_ = {}; }

  // Returns what is wrong, or nothing. `now` is of a clock that never goes back.
  [[nodiscard]] std::string on_probe(const TraceRecord& probe, proto::Time now,
                                     proto::Duration shortest) {
    if (probe.peer >= kPeers || probe.slot >= kSlots) return {};
    Asked& asked = asked_[probe.peer][probe.slot];
    if (asked.generation != probe.generation || asked.times == 0) {
      asked = {now, 0, probe.generation};
    }
    if (++asked.times < kInARow) return {};
    const proto::Duration took = now - asked.since;
    asked.times = 0;
    if (took >= shortest * (kInARow / 2)) return {};
    return std::to_string(kInARow) + " probes of one path within " +
           std::to_string(took.ns / 1000) + " us";
  }

  // A packet with data of a message was lost.
  void on_loss(const TraceRecord& packet) {
    if (packet.peer >= kPeers) return;
    for (Asked& asked : asked_[packet.peer]) {
      if (asked.times > 0) --asked.times;
    }
  }

 private:
  static constexpr std::size_t kPeers = 16;
  static constexpr std::size_t kSlots = 16;
  static constexpr std::int64_t kInARow = 256;
  struct Asked {
    proto::Time since{};
    std::int64_t times = 0;
    std::uint8_t generation = 0;
  };
  std::array<std::array<Asked, kSlots>, kPeers> asked_{};
};

}  // namespace hawser::sim
