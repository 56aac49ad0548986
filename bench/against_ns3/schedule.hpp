// SPDX-License-Identifier: Apache-2.0
// What both simulators are given: when each packet of each source departs. And what each of them
// gives back: when it arrived.
//
//   source 0 --\                                 All cables 10 Gb/s and 1 us; packets of 1500
//   ...         switch -- queue, cable -- sink   bytes, all that is on the wire counted.
//   source 7 --/
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "proto/base/random.hpp"

namespace hawser::against_ns3 {

inline constexpr std::uint32_t kSources = 8;
inline constexpr std::uint64_t kBitsPerSecond = 10'000'000'000;
inline constexpr std::int64_t kLatencyPs = 1'000'000;
inline constexpr std::uint32_t kPacketBytes = 1500;
inline constexpr std::int64_t kPacketPs = std::int64_t{kPacketBytes} * 800;
// Exponential means. A source offers 10 / (10 + 79.5) of a cable, all of them 0.89.
inline constexpr double kOnPs = 10e6;
inline constexpr double kOffPs = 79.5e6;

struct Case {
  std::uint64_t seed = 1;
  std::int64_t length_ps = 0;  // in which packets depart
  // Of the queue at the bottleneck, in packets, with the one that is being sent.
  std::uint32_t capacity = 64;
  // Pause between two packets of a burst: drawn evenly from 0 to this. With 0 they follow each
  // other exactly as fast as the bottleneck sends, so that many come in the very picosecond in
  // which it has sent one.
  std::int64_t pause_ps = 0;
  // In that picosecond: ns-3's switch hands a packet on only after all that was planned for it, so
  // that the one that has been sent is gone first, as it is in sim/fabric. Else ns-3 goes by which
  // of the two was planned first, and that is the one that comes.
  bool leaving_first = false;
};

struct Departure {
  std::int64_t at_ps = 0;
  std::uint32_t source = 0;
};

inline constexpr std::int64_t kDropped = -1;

struct Outcome {
  std::vector<std::int64_t> arrived_ps;  // of each departure, its last byte; or kDropped
  std::uint64_t dropped = 0;             // as the bottleneck's own counter says
};

inline double exponential(proto::Random& random, double mean) {
  const double even = (static_cast<double>(random.next() >> 11) + 1) * 0x1.0p-53;  // (0, 1]
  return -mean * std::log(even);
}

// In the order of time. Bursts are as many whole packets as come closest to their drawn time,
// possibly none, so that rounding takes nothing from the load.
[[nodiscard]] inline std::vector<Departure> draw(const Case& which) {
  std::vector<Departure> all;
  proto::Random random(which.seed);
  for (std::uint32_t source = 0; source < kSources; ++source) {
    std::int64_t now = 0;
    while (true) {
      now += std::llround(exponential(random, kOffPs));
      if (now >= which.length_ps) break;
      const std::int64_t packets = std::llround(exponential(random, kOnPs) / kPacketPs);
      for (std::int64_t i = 0; i < packets; ++i) {
        all.push_back({now, source});
        now += kPacketPs;
        if (which.pause_ps > 0) {
          now += static_cast<std::int64_t>(
              random.below(static_cast<std::uint64_t>(which.pause_ps) + 1));
        }
      }
    }
  }
  std::ranges::stable_sort(all, {}, &Departure::at_ps);
  return all;
}

[[nodiscard]] Outcome run_hawser(const Case& which, const std::vector<Departure>& departures);
[[nodiscard]] Outcome run_ns3(const Case& which, const std::vector<Departure>& departures);

}  // namespace hawser::against_ns3
