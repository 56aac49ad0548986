// SPDX-License-Identifier: Apache-2.0
// Statistics of many storms, in a fixed amount of memory however many there are. The totals of
// several workers add up.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "sim/storm/storm.hpp"
#include "tool/storm/histogram.hpp"

namespace hawser::tool {

// The requirements on storms of a range of seeds (docs/internals/storm.md). Seeds from `first` on
// draw things that lower ones don't. Storms of partners are smaller on purpose, as only some of
// them have the faults and the traffic of the others.
struct StormRange {
  std::string_view name;
  std::uint64_t first;
  std::uint64_t packets;  // the least median
  std::uint64_t faults;   // likewise
  double fault_share;     // share of seeds, for each kind of fault that the range draws
  double cell_share;      // share of seeds, for each cell of the census that is the range's aim
};
inline constexpr std::array kSeedRanges{
    StormRange{"", 0, 2000, 5, 0.05, 0},
    StormRange{"partners", sim::kFirstOfPartners, 1500, 3, 0.025, 0.02},
    StormRange{"epochs", sim::kFirstOfEpochs, 2000, 5, 0.05, 0.05},
    StormRange{"one-sided", sim::kFirstOfOneSided, 800, 5, 0.05, 0.002},
};
[[nodiscard]] std::size_t seed_range_of(std::uint64_t seed);

// X(name, unit, text)
#define HAWSER_STORM_QUANTITIES(X)                               \
  X(packets, "", "packets that entered the fabric")              \
  X(frames, "", "frames on cables: a packet once for each")      \
  X(messages, "", "messages planned")                            \
  X(message_bytes, "bytes", "length of a message")               \
  X(faults, "", "faults that began")                             \
  X(fault_kinds, "", "kinds of faults among them")               \
  X(completions, "", "completions")                              \
  X(virtual_us, "us", "virtual time to the end of all messages") \
  X(after_healing_us, "us", "of it, after the last fault")       \
  X(wall_us, "us", "time that the run took")

enum class Quantity : std::uint8_t {
#define HAWSER_ENUM(name, unit, text) name,
  HAWSER_STORM_QUANTITIES(HAWSER_ENUM)
#undef HAWSER_ENUM
      count_
};
inline constexpr std::size_t kQuantities = static_cast<std::size_t>(Quantity::count_);

struct QuantityText {
  std::string_view name;
  std::string_view unit;
  std::string_view text;
};
inline constexpr std::array<QuantityText, kQuantities> kQuantityTexts{{
#define HAWSER_TEXT(name, unit, text) {#name, unit, text},
    HAWSER_STORM_QUANTITIES(HAWSER_TEXT)
#undef HAWSER_TEXT
}};

// How often, and in how many seeds, something was visited.
struct Visits {
  std::uint64_t times = 0;
  std::uint64_t seeds = 0;
  void add(std::uint64_t n) {
    times += n;
    seeds += n > 0;
  }
  void merge(const Visits& other) {
    times += other.times;
    seeds += other.seeds;
  }
};

// The totals of one range of seeds.
struct RangeTotals {
  std::uint64_t runs = 0;
  std::uint64_t runs_with_packets_wanted = 0;  // counted exactly, as a histogram rounds
  std::uint64_t runs_with_faults_wanted = 0;
  Histogram packets{};
  Histogram faults{};
  std::array<std::uint64_t, sim::kFaultKinds> seeds_with_fault{};
  std::array<std::uint64_t, sim::kCensusCells> seeds_with_cell{};

  void add(const StormRange& range, const sim::StormOutcome& outcome, std::uint64_t begun);
  void merge(const RangeTotals& other);
};

struct Totals {
  std::uint64_t runs = 0;    // runs that ended, whatever the verdict
  std::uint64_t digest = 0;  // sum of the runs' digests, whatever their order
  std::uint64_t events = 0;
  std::uint64_t turns = 0;
  Visits failed_sessions;
  Visits dead_processes;
  std::array<RangeTotals, kSeedRanges.size()> ranges{};
  std::array<Visits, sim::kFaultKinds> faults{};
  std::array<Visits, sim::kCensusCells> census{};
  std::array<Histogram, kQuantities> quantities{};

  void add(const sim::Plan& plan, const sim::StormOutcome& outcome, std::uint64_t wall_ns);
  void merge(const Totals& other);
  [[nodiscard]] const Histogram& of(Quantity quantity) const {
    return quantities[static_cast<std::size_t>(quantity)];
  }
};
static_assert(std::is_trivially_copyable_v<Totals>);

struct Mark {
  std::string text;
  bool holds = false;
};
// Whether the storms of each range of seeds that was run were strong enough, as far as numbers can
// say.
[[nodiscard]] std::vector<Mark> marks(const Totals& totals);
// "group:name" of the existing cells that no storm visited.
[[nodiscard]] std::vector<std::string> unvisited(const Totals& totals);

}  // namespace hawser::tool
