// SPDX-License-Identifier: Apache-2.0
// An experiment as it was asked for: a question, the metric that decides it and the expected
// result, a fabric, traffic, faults, and the senders. Plain data: tool/sim/ reads files and words.
// The number of runs follows from the plan: points of the ranges x senders x seeds.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/experiment/matrix_run.hpp"
#include "sim/fabric/faults.hpp"
#include "sim/fabric/shape.hpp"

namespace hawser::experiment {

// The metric that decides an experiment. More is better for goodput and left_used, less for all
// others.
enum class Metric : std::uint8_t {
  last_flow_us,  // when the last sender knows that all has arrived, from the traffic's begin
  last_flow_over_ideal,  // the same as a share of the ideal completion; 1 is perfect
  p99_flow_excess_us,    // over a flow's ideal time
  p99_step_excess_us,    // over a step's
  goodput,               // Gb/s of payload, all flows together, until the last one's end
  retransmitted,         // packets
  capacity_back_us,      // from the first fault until the rest of the fabric is used again
  left_used,             // the share of their remaining capacity that hosts with a failed NIC used
  blamed_wrongly,        // paths that a sender took for dead although no NIC of theirs was
  resent_in_vain,        // the share of data packets that came to a receiver that had them already
};
inline constexpr std::array<std::string_view, 10> kMetricNames{
    "last_flow_us",   "last_flow_over_ideal", "p99_flow_excess_us", "p99_step_excess_us",
    "goodput",        "retransmitted",        "capacity_back_us",   "left_used",
    "blamed_wrongly", "resent_in_vain"};
[[nodiscard]] inline std::string_view name_of(Metric metric) {
  return kMetricNames[static_cast<std::size_t>(metric)];
}
[[nodiscard]] constexpr bool more_is_better(Metric metric) {
  return metric == Metric::goodput || metric == Metric::left_used;
}

// The result that is expected of the first sender, in every run.
struct Expectation {
  double bound = 0;    // at most, or at least where more is better
  double figure = 0;   // the value that others publish; 0: none
  std::string source;  // where the figure, or else the bound, is from
};
[[nodiscard]] bool holds(Metric metric, const Expectation& expected, double value);

struct SeedRange {
  std::uint64_t first = 1;
  std::uint64_t last = 1;
  [[nodiscard]] std::uint64_t count() const { return last - first + 1; }
  [[nodiscard]] bool meets(const SeedRange& other) const {
    return first <= other.last && other.first <= last;
  }
};

struct FabricPlan {
  std::string said;  // a description of the shape, for people
  fabric::Shape shape;
  NicConfig nic;
};

// Traffic: either a matrix that was read from a file, or a generator's name and numbers.
struct TrafficPlan {
  std::string said;
  fabric::ConnectionMatrix matrix;
  std::string generator;
  std::map<std::string, std::uint64_t, std::less<>> numbers;
  bool group = false;         // of a matrix: hints group the messages to one receiver
  std::uint8_t priority = 0;  // in the hints of all messages
  // Background traffic at the same time, which isn't measured: its numbers; empty: none.
  std::map<std::string, std::uint64_t, std::less<>> beside{};
  std::string file{};  // the matrix's file, for complaints about its lines
};

// A fault in a plan's terms. Its link or switch has a name, or the seed draws it.
struct FaultPlan {
  enum class Kind : std::uint8_t { link_down, link_rate, link_loss, switch_down };
  // Which directions of a cable: from the host, or from the device that the link's name begins
  // with, and back.
  enum class Ways : std::uint8_t { both, from, to };
  Kind kind = Kind::link_down;
  fabric::Span at{};        // since the traffic's begin
  fabric::Span lasts{};     // 0: to the end
  std::string link{};       // "leaf 3 -> spine 5"
  std::string at_switch{};  // "spine 5"
  std::uint32_t drawn = 0;  // this many cables between switches, each drawn once
  // Or the first this many NICs of a host: their ports' cables.
  std::uint32_t host = 0;
  std::uint32_t nics = 0;
  Ways ways = Ways::both;
  std::uint64_t bits_per_s = 0;  // link_rate
  double probability = 0;        // link_loss
  bool silent = false;           // drivers don't hear that it goes down (sim/fabric/faults.hpp)
  // How often it comes, and how long each comes after the one before: more than it lasts.
  std::uint32_t times = 1;
  fabric::Span every{};
};
inline constexpr std::array<std::string_view, 4> kFaultKindNames{"link_down", "link_rate",
                                                                 "link_loss", "switch_down"};
inline constexpr std::array<std::string_view, 3> kWaysNames{"both", "from", "to"};

// A key of the plan that takes several values, in the plan's own words.
struct Range {
  std::string path;  // "traffic.bytes"
  std::vector<std::string> values;
};

struct Plan {
  std::string question;
  Metric metric = Metric::last_flow_us;
  Expectation expected;
  double runtime_s = 0;         // CPU time of all runs of judge
  std::uint64_t memory_mb = 0;  // of the largest process
  SeedRange tune;
  SeedRange judge;
  FabricPlan fabric;
  TrafficPlan traffic;
  Hints hints = Hints::all;
  std::vector<FaultPlan> faults;
  std::vector<std::string> senders;
  std::vector<Range> ranges;
  std::vector<std::string> values;                       // of the ranges, at this point
  fabric::Span limit = fabric::microseconds(1'000'000);  // in which sessions and flows must end
};

// The plan's first error, as a sentence that names the key; empty if there is none.
[[nodiscard]] std::string complaint_about(const Plan& plan);

// Points of the ranges. A point is, for each range, the index of a value in it; the last range
// changes fastest. One empty point if there are no ranges.
[[nodiscard]] std::vector<std::vector<std::size_t>> points_of(const std::vector<Range>& ranges);

// The plan's faults in a fabric, from `begun` on, in the plan's order. Throws InputError for a name
// that the fabric doesn't have, or if it has fewer cables than are to be drawn.
[[nodiscard]] std::vector<fabric::Fault> faults_of(const Plan& plan, const fabric::Wiring& wiring,
                                                   std::uint64_t seed, fabric::Instant begun);

}  // namespace hawser::experiment
