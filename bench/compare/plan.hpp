// SPDX-License-Identifier: Apache-2.0
// The plan of a comparison, and its results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "bench/compare/transport.hpp"

namespace hawser::bench {

enum class Kind : std::uint8_t { stream, ping };

// One cell of the table.
struct Point {
  double loss = 0;  // share of the packets, each way
  Kind kind = Kind::stream;
  std::size_t bytes = 0;
  std::string transport;
  auto operator<=>(const Point&) const = default;
};

struct Sample {
  std::uint64_t count = 0;  // messages, or round trips
  double seconds = 0;
  double client_cpu = 0;  // seconds of processor time, all threads
  double server_cpu = 0;
  double waited = 0;  // both processes together, for a core that ran something else
  [[nodiscard]] double disturbance() const { return seconds > 0 ? waited / seconds : 0; }
};

struct Plan {
  std::vector<std::string> transports;
  bool all = true;  // all transports; those that are missing are left out, with the reason
  std::vector<std::size_t> sizes{8, 64, 512, 4096, 32768, 256 << 10, 4 << 20, 64 << 20};
  std::vector<std::size_t> ping_sizes{8, 4096, 65536};
  std::vector<double> losses{0};
  std::uint64_t rounds = 15;
  std::uint64_t repeats = 0;  // how much tries for an undisturbed sample may take, in samples' time
  double sample_seconds = 0.1;    // a sample's count is chosen so that it takes about as long
  std::uint64_t messages = 0;     // 0: chosen in the first round
  std::uint64_t round_trips = 0;  // 0: chosen in the first round
  TransportOptions options;
};

struct Results {
  std::map<Point, std::vector<Sample>> samples;
  std::map<std::string, std::string> left_out;  // transports, with the reason
  std::map<Point, std::string> failed;  // with the reason; the transport isn't measured after that
};

}  // namespace hawser::bench
