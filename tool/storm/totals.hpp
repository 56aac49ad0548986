// SPDX-License-Identifier: Apache-2.0
// What many storms were like, in a fixed amount of memory however many they are. Those of several
// workers add up.
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

// What a storm has to be like to be worth its name (docs/internals/storm.md).
inline constexpr std::uint64_t kPacketsWanted = 2000;  // by the median
inline constexpr std::uint64_t kFaultsWanted = 5;      // likewise
inline constexpr double kFaultShareWanted = 0.05;      // of seeds, for each kind

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

// How often, and in how many seeds.
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

struct Totals {
  std::uint64_t runs = 0;  // that came to an end, whatever the verdict
  std::uint64_t events = 0;
  std::uint64_t turns = 0;
  Visits failed_sessions;
  Visits dead_processes;
  std::uint64_t runs_with_packets_wanted = 0;  // exactly, as a histogram rounds
  std::uint64_t runs_with_faults_wanted = 0;
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
// Whether these storms were strong enough, as far as numbers can say.
[[nodiscard]] std::vector<Mark> marks(const Totals& totals);
// "group:name" of the cells that exist and that no storm came to.
[[nodiscard]] std::vector<std::string> unvisited(const Totals& totals);

}  // namespace hawser::tool
