// SPDX-License-Identifier: Apache-2.0
// Question: do the fabric of sim/fabric and ns-3, a packet simulator that shares no code with it,
// agree on a drop-tail queue? Eight bursty sources overrun one such queue in a switch. Both
// simulators get exactly the same schedule of departures. Metric for each flow: the packets that
// arrived, the packets that were dropped, and the mean and 99th percentile of the delay from
// departure to the last byte. The table also counts the packets whose fate or delay differs, to the
// picosecond. Exit status 1 if any of a flow's four figures differs by more than 2%. One part of
// the table is shown but not judged: the two simulators order events within one picosecond by
// different rules (docs/lab/simulator.md, Beside ns-3). Runtime: 15 s. Built on request:
// -DHAWSER_NS3=ON.
#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "bench/against_ns3/schedule.hpp"

namespace {

using namespace hawser::against_ns3;

constexpr double kMostPercent = 2;

struct Setting {
  const char* name;
  std::int64_t pause_ps;
  bool leaving_first;
  bool is_judged;
};
constexpr Setting kSettings[] = {
    {"Pauses of 0 to 40 ns between the packets of a burst", 40'000, false, true},
    {"No pauses; ns-3's switch lets the packet that has been sent leave first", 0, true, true},
    {"No pauses; ns-3 lets a packet come before (not judged)", 0, false, false},
};

struct Figures {
  std::uint64_t delivered = 0;
  std::uint64_t dropped = 0;
  double mean_us = 0;
  double p99_us = 0;
};

// The figures of one flow, or of all flows if `source` is kSources.
Figures figures(const std::vector<Departure>& departures, const Outcome& outcome,
                std::uint32_t source) {
  Figures of;
  std::vector<std::int64_t> delays;
  double sum = 0;
  for (std::size_t i = 0; i < departures.size(); ++i) {
    if (source != kSources && departures[i].source != source) continue;
    if (outcome.arrived_ps[i] == kDropped) {
      ++of.dropped;
      continue;
    }
    delays.push_back(outcome.arrived_ps[i] - departures[i].at_ps);
    sum += static_cast<double>(delays.back());
  }
  of.delivered = delays.size();
  if (delays.empty()) return of;
  const auto at = delays.begin() + static_cast<std::ptrdiff_t>((delays.size() - 1) * 99 / 100);
  std::ranges::nth_element(delays, at);
  of.mean_us = sum / static_cast<double>(delays.size()) / 1e6;
  of.p99_us = static_cast<double>(*at) / 1e6;
  return of;
}

double percent(double ours, double theirs) {
  if (ours == theirs) return 0;
  return theirs == 0 ? 100 : std::abs(ours - theirs) / theirs * 100;
}

struct Differences {
  double delivered = 0;  // percent, of the flow in which the difference is largest
  double dropped = 0;
  double mean = 0;
  double p99 = 0;
  std::uint64_t fates = 0;   // packets whose fate differs
  std::uint64_t delays = 0;  // packets that arrived in both, with different delays
  [[nodiscard]] double worst() const { return std::max({delivered, dropped, mean, p99}); }
};

void print_flow(std::uint32_t source, const Figures& ours, const Figures& theirs) {
  fmt::print(
      "    flow {}: delivered {} {}, dropped {} {}, mean {:.4f} {:.4f} us, p99 {:.4f} {:.4f}\n",
      source, ours.delivered, theirs.delivered, ours.dropped, theirs.dropped, ours.mean_us,
      theirs.mean_us, ours.p99_us, theirs.p99_us);
}

Differences compare(const std::vector<Departure>& departures, const Outcome& ours,
                    const Outcome& theirs, bool show_flows) {
  Differences found;
  for (std::uint32_t source = 0; source < kSources; ++source) {
    const Figures a = figures(departures, ours, source);
    const Figures b = figures(departures, theirs, source);
    const auto widen = [](double& so_far, double x, double y) {
      so_far = std::max(so_far, percent(x, y));
    };
    widen(found.delivered, static_cast<double>(a.delivered), static_cast<double>(b.delivered));
    widen(found.dropped, static_cast<double>(a.dropped), static_cast<double>(b.dropped));
    widen(found.mean, a.mean_us, b.mean_us);
    widen(found.p99, a.p99_us, b.p99_us);
    if (show_flows) print_flow(source, a, b);
  }
  for (std::size_t i = 0; i < departures.size(); ++i) {
    const std::int64_t a = ours.arrived_ps[i];
    const std::int64_t b = theirs.arrived_ps[i];
    if ((a == kDropped) != (b == kDropped)) {
      ++found.fates;
    } else if (a != b) {
      ++found.delays;
    }
  }
  return found;
}

struct Verdict {
  bool counted = false;  // in both simulators, the drop counter equals the packets that are missing
  bool alike = false;
};

Verdict run(const Case& which, bool show_flows) {
  const std::vector<Departure> departures = draw(which);
  const Outcome ours = run_hawser(which, departures);
  const Outcome theirs = run_ns3(which, departures);
  const Figures a = figures(departures, ours, kSources);
  const Figures b = figures(departures, theirs, kSources);
  const double load = static_cast<double>(departures.size()) * static_cast<double>(kPacketPs) /
                      static_cast<double>(which.length_ps);
  const Differences found = compare(departures, ours, theirs, show_flows);
  fmt::print(
      "{:>5} {:>4} {:>5.3f} {:>7} | {:>6} {:>6} | {:>8.4f} {:>8.4f} | {:>8.4f} "
      "{:>8.4f} | {:>5.2f} {:>5.2f} {:>5.2f} {:>5.2f} | {:>6} {:>6}\n",
      which.capacity, which.seed, load, departures.size(), a.dropped, b.dropped, a.mean_us,
      b.mean_us, a.p99_us, b.p99_us, found.delivered, found.dropped, found.mean, found.p99,
      found.fates, found.delays);
  const Verdict verdict{ours.dropped == a.dropped && theirs.dropped == b.dropped,
                        found.worst() <= kMostPercent};
  if (!verdict.counted) {
    fmt::print("  missing {} and {}, but dropped {} and {}\n", a.dropped, b.dropped, ours.dropped,
               theirs.dropped);
  }
  return verdict;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("The fabric beside ns-3: one drop-tail queue, eight bursty sources");
  std::uint64_t seeds = 5;
  std::int64_t length_ms = 200;
  std::vector<std::uint32_t> capacities = {16, 64};
  bool show_flows = false;
  app.add_option("--seeds", seeds, "as many, from 1 on")->check(CLI::Range(1, 1000));
  app.add_option("--ms", length_ms, "length of a run")->check(CLI::Range(1, 10'000));
  app.add_option("--capacities", capacities, "of the queue, in packets")
      ->check(CLI::Range(2, 100'000));
  app.add_flag("--flows", show_flows, "each flow's figures too");
  CLI11_PARSE(app, argc, argv);
  fmt::print(
      "Each pair: here, ns-3. Difference: percent, of the flow in which it is largest; and "
      "packets.\n");
  fmt::print("{:>5} {:>4} {:>5} {:>7} | {:^13} | {:^17} | {:^17} | {:^23} | {:^13}\n", "queue",
             "seed", "load", "packets", "dropped", "mean delay, us", "p99 delay, us",
             "arr.  drop  mean   p99", "fates  delays");
  bool alike = true;
  for (const Setting& setting : kSettings) {
    fmt::print("{}\n", setting.name);
    for (const std::uint32_t capacity : capacities) {
      for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        const Case which{.seed = seed,
                         .length_ps = length_ms * 1'000'000'000,
                         .capacity = capacity,
                         .pause_ps = setting.pause_ps,
                         .leaving_first = setting.leaving_first};
        const Verdict verdict = run(which, show_flows);
        alike = alike && verdict.counted && (verdict.alike || !setting.is_judged);
      }
    }
  }
  fmt::print("{}: at most {}% allowed\n", alike ? "alike" : "DIFFERENT", kMostPercent);
  return alike ? 0 : 1;
}
