// SPDX-License-Identifier: Apache-2.0
// An experiment as it was asked for: a question, what decides it and what is expected, a fabric,
// traffic, faults, and who sends. Plain data: files and words are read elsewhere (tool/sim/), and
// the number of runs follows from it: points of the ranges x senders x seeds.
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

// What decides. Of goodput and left_used more is better, of all others less.
enum class Metric : std::uint8_t {
  last_flow_us,  // when the last sender knows that all has arrived, from the traffic's begin
  last_flow_over_ideal,  // the same as a share of the ideal completion; 1 is perfect
  p99_flow_excess_us,    // over a flow's ideal time
  p99_step_excess_us,    // over a step's
  goodput,               // Gb/s of payload, all flows together, until the last one's end
  retransmitted,         // packets
  capacity_back_us,      // from the first fault until what is left of the fabric is used again
  left_used,             // the share of what is left to hosts that were struck that they used
  blamed_wrongly,        // paths that a sender took for dead while no NIC of theirs was
  resent_in_vain,        // the share of data packets that came to a receiver who had them
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

// Of the first sender, in every run.
struct Expectation {
  double bound = 0;    // at most, or at least where more is better
  double figure = 0;   // what others publish; 0: nothing
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
  std::string said;  // what the shape was made of, for people
  fabric::Shape shape;
  NicConfig nic;
};

// Either a matrix that was read from a file, or a generator's name and numbers.
struct TrafficPlan {
  std::string said;
  fabric::ConnectionMatrix matrix;
  std::string generator;
  std::map<std::string, std::uint64_t, std::less<>> numbers;
  bool group = false;  // of a matrix: hints say that the messages to one receiver come together
  std::uint8_t priority = 0;  // the hints' of all messages
  // What else is under way meanwhile, and isn't measured: the numbers of a background; empty: none.
  std::map<std::string, std::uint64_t, std::less<>> beside{};
  std::string file{};  // that the matrix is from, for complaints about its lines
};

// A fault as people say it; what it strikes has a name, or is drawn by the seed.
struct FaultPlan {
  enum class Kind : std::uint8_t { link_down, link_rate, link_loss, switch_down };
  // Of a cable: from the host, or else from what the link's name begins with, and back.
  enum class Ways : std::uint8_t { both, from, to };
  Kind kind = Kind::link_down;
  fabric::Span at{};        // since the traffic's begin
  fabric::Span lasts{};     // 0: to the end
  std::string link{};       // "leaf 3 -> spine 5"
  std::string at_switch{};  // "spine 5"
  std::uint32_t drawn = 0;  // so many cables between switches, each drawn once
  // Or so many of a host's NICs, the first ones: their ports' cables.
  std::uint32_t host = 0;
  std::uint32_t nics = 0;
  Ways ways = Ways::both;
  std::uint64_t bits_per_s = 0;  // link_rate
  double probability = 0;        // link_loss
  bool silent = false;           // what goes down is not heard by drivers (sim/fabric/faults.hpp)
  // It comes so many times, each so long after the one before: more than it lasts.
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

// What is wrong with it, as a sentence that names the key; empty: nothing.
[[nodiscard]] std::string complaint_about(const Plan& plan);

// Points of ranges: of each the place of a value in its range; the last range changes fastest. One
// empty point if there are none.
[[nodiscard]] std::vector<std::vector<std::size_t>> points_of(const std::vector<Range>& ranges);

// The plan's faults in a fabric, from `begun` on: their order is that of the plan. Throws
// InputError for a name that the fabric doesn't have, or more draws than it has cables.
[[nodiscard]] std::vector<fabric::Fault> faults_of(const Plan& plan, const fabric::Wiring& wiring,
                                                   std::uint64_t seed, fabric::Instant begun);

}  // namespace hawser::experiment
