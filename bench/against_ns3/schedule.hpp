// SPDX-License-Identifier: Apache-2.0
// The input and the output of both simulators. The schedule says when each packet of each source
// departs. The outcome says when each packet arrived.
//
//   Source 0 --\                                 All cables 10 Gb/s and 1 us; packets of 1500
//   ...         switch -- queue, cable -- sink   bytes on the wire, headers included.
//   Source 7 --/
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
// Exponential means. One source offers 10 / (10 + 79.5) of a cable's rate, all eight together 0.89.
inline constexpr double kOnPs = 10e6;
inline constexpr double kOffPs = 79.5e6;

struct Case {
  std::uint64_t seed = 1;
  std::int64_t length_ps = 0;  // time during which packets depart
  // Capacity of the bottleneck's queue in packets, including the packet that is being sent.
  std::uint32_t capacity = 64;
  // Pause between two packets of a burst, drawn evenly from 0 to this. With 0 they follow each
  // other exactly as fast as the bottleneck sends. Many packets then arrive in the very picosecond
  // in which the bottleneck has sent one.
  std::int64_t pause_ps = 0;
  // The order within such a picosecond. If true, ns-3's switch hands a packet on only after all
  // events that were already planned, so the sent packet leaves first, as in sim/fabric. If false,
  // ns-3 runs the event that was planned first, which is the arrival.
  bool leaving_first = false;
};

struct Departure {
  std::int64_t at_ps = 0;
  std::uint32_t source = 0;
};

inline constexpr std::int64_t kDropped = -1;

struct Outcome {
  std::vector<std::int64_t> arrived_ps;  // last byte of each departure, or kDropped
  std::uint64_t dropped = 0;             // by the bottleneck's own counter
};

inline double exponential(proto::Random& random, double mean) {
  const double even = (static_cast<double>(random.next() >> 11) + 1) * 0x1.0p-53;  // (0, 1]
  return -mean * std::log(even);
}

// In order of time. Each burst has the whole number of packets, possibly none, that comes closest
// to its drawn time, so rounding takes nothing from the load.
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
