// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>

#include "sim/traffic/generators.hpp"

namespace hawser::fabric {

namespace {

double fraction(proto::Random& random) {
  return static_cast<double>(random.next() >> 11) * 0x1.0p-53;
}

// Exponentially distributed with a mean of 1.
double exponential(proto::Random& random) { return -std::log1p(-fraction(random)); }

// Web search traffic (Alizadeh et al., DCTCP, SIGCOMM 2010), as the generator of HPCC (Li et al.,
// SIGCOMM 2019) tabulates it. A point has a length in bytes, and the percentage of messages that
// are no longer. The percentage rises linearly between points.
struct Point {
  double bytes;
  double percent;
};
constexpr std::array<Point, 12> kWebSearch{{{0, 0},
                                            {10'000, 15},
                                            {20'000, 20},
                                            {30'000, 30},
                                            {50'000, 40},
                                            {80'000, 53},
                                            {200'000, 60},
                                            {1'000'000, 70},
                                            {2'000'000, 80},
                                            {5'000'000, 90},
                                            {10'000'000, 97},
                                            {30'000'000, 100}}};

constexpr double mean_of_web_search() {
  double mean = 0;
  for (std::size_t i = 1; i < kWebSearch.size(); ++i) {
    const double share = (kWebSearch[i].percent - kWebSearch[i - 1].percent) / 100;
    mean += share * (kWebSearch[i].bytes + kWebSearch[i - 1].bytes) / 2;
  }
  return mean;
}

double web_search(proto::Random& random) {
  const double percent = fraction(random) * 100;
  std::size_t i = 1;
  while (i + 1 < kWebSearch.size() && kWebSearch[i].percent <= percent) ++i;
  const Point& below = kWebSearch[i - 1];
  const Point& above = kWebSearch[i];
  return below.bytes +
         (above.bytes - below.bytes) * (percent - below.percent) / (above.percent - below.percent);
}

std::uint64_t draw_bytes(const Traffic& traffic, proto::Random& random) {
  switch (traffic.sizes) {
    case Traffic::Sizes::fixed: return traffic.bytes;
    case Traffic::Sizes::exponential: {
      const double mean = static_cast<double>(traffic.bytes);
      constexpr auto kMost = static_cast<double>(Traffic::kMostMeans);
      const double bytes = std::min(exponential(random), kMost) * mean;
      return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(bytes));
    }
    case Traffic::Sizes::web_search: break;
  }
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(web_search(random)));
}

void check(const Traffic& traffic, double mean_ps) {
  if (!(traffic.load > 0) || traffic.load > 1) {
    throw InputError("background traffic has a load above 0 and up to 1 of a node's link");
  }
  if (traffic.bits_per_s < kSlowest || traffic.bits_per_s > kFastest) {
    throw InputError("background traffic needs the rate of a node's link, " +
                     std::to_string(kSlowest) + " to " + std::to_string(kFastest) +
                     " bits/s, not " + std::to_string(traffic.bits_per_s));
  }
  constexpr Span kLongest = microseconds(1'000'000'000);
  if (traffic.duration <= Span{} || traffic.duration > kLongest) {
    throw InputError("background traffic has a duration above 0 and up to 1000 s");
  }
  const double messages = traffic.nodes * static_cast<double>(traffic.duration.ps) / mean_ps;
  if (messages > static_cast<double>(MatrixBuilder::kMostConnections) / 2) {
    throw InputError("background traffic of about " +
                     std::to_string(static_cast<std::uint64_t>(messages)) +
                     " messages is too much: take less time, less load or longer messages");
  }
}

}  // namespace

void add_background(MatrixBuilder& builder, const Traffic& traffic, proto::Random& random) {
  const double mean = traffic.sizes == Traffic::Sizes::web_search
                          ? mean_of_web_search()
                          : static_cast<double>(traffic.bytes);
  const double mean_ps = mean * 8e12 / (static_cast<double>(traffic.bits_per_s) * traffic.load);
  check(traffic, mean_ps);
  struct Arrival {
    std::int64_t at;
    std::uint32_t from;
    std::uint32_t to;
    std::uint64_t bytes;
  };
  std::vector<Arrival> arrivals;
  for (std::uint32_t from = 0; from < traffic.nodes; ++from) {
    // A node's messages don't depend on how many other nodes there are.
    proto::Random own(random.next());
    double at = exponential(own) * mean_ps;
    for (; at < static_cast<double>(traffic.duration.ps); at += exponential(own) * mean_ps) {
      const auto to =
          static_cast<std::uint32_t>((from + 1 + own.below(traffic.nodes - 1)) % traffic.nodes);
      arrivals.push_back({static_cast<std::int64_t>(at), from, to, draw_bytes(traffic, own)});
    }
  }
  std::ranges::stable_sort(arrivals, {}, &Arrival::at);
  for (const Arrival& one : arrivals) {
    const std::uint32_t place = builder.send({.from = one.from, .to = one.to, .bytes = one.bytes});
    builder.set_start(place, Instant{one.at});
  }
}

}  // namespace hawser::fabric
