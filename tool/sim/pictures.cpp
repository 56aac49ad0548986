// SPDX-License-Identifier: Apache-2.0
#include "tool/sim/pictures.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "sim/fabric/wiring.hpp"
#include "tool/sim/svg.hpp"

namespace hawser::tool {
namespace {

using experiment::Metric;
using experiment::Plan;

constexpr double kUs = 1e-6;         // of a picosecond
constexpr double kGbps = 8e3;        // of a byte in a picosecond
constexpr std::size_t kSteps = 400;  // of a distribution's line

ChartLine line_of(const Plan& plan, std::size_t sender) {
  return {plan.senders[sender], std::string(colour_of(sender)), {}};
}

// The share of flows that took at most each time.
std::vector<std::pair<double, double>> distribution(const Group& group) {
  std::vector<std::int64_t> all;
  for (const KeptRun& run : group.runs) {
    all.insert(all.end(), run.took_ps.begin(), run.took_ps.end());
  }
  std::ranges::sort(all);
  std::vector<std::pair<double, double>> points;
  if (all.empty()) return points;
  points.emplace_back(static_cast<double>(all.front()) * kUs, 0);
  const std::size_t count = std::min(all.size(), kSteps);
  for (std::size_t i = 1; i <= count; ++i) {
    const std::size_t rank = all.size() * i / count;  // from 1
    // The line has steps: the share is constant between two flows' times.
    points.emplace_back(static_cast<double>(all[rank - 1]) * kUs, points.back().second);
    points.emplace_back(static_cast<double>(all[rank - 1]) * kUs,
                        static_cast<double>(rank) / static_cast<double>(all.size()));
  }
  return points;
}

// The ideal of a point's runs, for a vertical line.
double ideal_us(const Findings& findings, std::size_t point) {
  const auto& runs = findings.group(point, 0).runs;
  return runs.empty() ? 0 : static_cast<double>(runs.front().numbers.ideal_ps) * kUs;
}

std::vector<ChartMark> fault_marks(const Findings& findings, std::size_t point) {
  const auto& runs = findings.group(point, 0).runs;
  std::vector<ChartMark> marks;
  if (runs.empty()) return marks;
  const double end = static_cast<double>(runs.front().lasted_ps) * kUs;
  for (const experiment::FaultMark& mark : runs.front().faults) {
    const double us = static_cast<double>(mark.at_ps) * kUs;
    const ChartMark shown{us, mark.ends ? "fault ends" : "fault"};
    const bool is_same = !marks.empty() && marks.back().x == us && marks.back().name == shown.name;
    if (us <= end && !is_same) marks.push_back(shown);
  }
  return marks;
}

double greatest(const Chart& chart) {
  double most = 0;
  for (const ChartLine& line : chart.lines) {
    for (const auto& [x, y] : line.points) most = std::max(most, y);
  }
  return most;
}

void scale_to_terabits(Chart& chart) {
  constexpr double kMany = 10'000;
  if (greatest(chart) < kMany) return;
  chart.y_name = "arriving at all hosts, Tb/s";
  for (ChartLine& line : chart.lines) {
    for (auto& [x, y] : line.points) y /= 1000;
  }
}

// The share of its capacity that a link used.
double use_of(const fabric::Wiring& wiring, const KeptRun& run, std::uint32_t link) {
  if (run.lasted_ps <= 0) return 0;
  const double gbps =
      static_cast<double>(run.links[link]) * kGbps / static_cast<double>(run.lasted_ps);
  return gbps * static_cast<double>(fabric::kGigabit) /
         static_cast<double>(wiring.settings(link).bits_per_s);
}

std::string finished(HeatMap map) {
  map.unit = "share of its rate";
  map.most = 0;
  for (const double cell : map.cells) map.most = std::max(map.most, cell);
  map.most = std::max(0.01, std::min(1.0, map.most));
  return to_svg(map);
}

// Columns are the switches of a tier; rows are their upward cables, in one direction.
std::string uplink_map(const fabric::Wiring& wiring, const KeptRun& run, std::uint32_t tier,
                       bool upwards, bool two_tiers) {
  HeatMap map;
  map.columns = wiring.count_of_tier(tier);
  const std::uint32_t rows = wiring.at(wiring.in_tier(tier, 0)).up;
  for (std::uint32_t n = 0; n < rows; ++n) {
    for (std::uint32_t i = 0; i < map.columns; ++i) {
      const std::uint32_t up = wiring.up(wiring.in_tier(tier, i), n);
      map.cells.push_back(use_of(wiring, run, upwards ? up : wiring.back(up)));
    }
  }
  const char* const lower = tier == 0 ? "leaf" : "upper";
  const char* const higher = two_tiers ? "spine" : tier == 0 ? "upper" : "core";
  map.title = upwards ? fmt::format("Links {} to {}", lower, higher)
                      : fmt::format("Links {} to {}", higher, lower);
  map.x_name = fmt::format("{} switch", lower);
  map.y_name = fmt::format("which of its {} cables to {}s", rows, higher);
  return finished(std::move(map));
}

std::string port_map(const fabric::Wiring& wiring, const KeptRun& run, bool outwards) {
  constexpr std::uint32_t kMostColumns = 128;
  HeatMap map;
  map.columns = std::min(wiring.ports(), kMostColumns);
  for (std::uint32_t port = 0; port < wiring.ports(); ++port) {
    map.cells.push_back(use_of(wiring, run, outwards ? wiring.to_port(port) : port));
  }
  map.title = outwards ? "Links switch to hosts" : "Links hosts to switch";
  map.x_name = "port";
  map.y_name = fmt::format("{} ports each", map.columns);
  return finished(std::move(map));
}

std::optional<double> number_of(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string axis_name(Metric metric) {
  switch (metric) {
    case Metric::last_flow_over_ideal: return "last flow's end / ideal";
    case Metric::goodput: return "goodput, Gb/s";
    case Metric::retransmitted: return "packets resent";
    case Metric::last_flow_us: return "last flow's end, us";
    case Metric::p99_flow_excess_us: return "p99 of flows' excess, us";
    case Metric::p99_step_excess_us: return "p99 of steps' excess, us";
    case Metric::capacity_back_us: return "capacity is back after, us";
    case Metric::left_used: return "used share of the remaining capacity";
    case Metric::blamed_wrongly: return "paths blamed wrongly";
    case Metric::resent_in_vain: return "share of packets sent in vain";
  }
  return {};
}

}  // namespace

std::string flow_times_picture(const Findings& findings, std::size_t point) {
  const Plan& plan = findings.plans()[point];
  Chart chart;
  chart.title = "Flow completion times";
  chart.x_name = "from a flow's start until its sender knows that all has arrived, us";
  chart.y_name = "share of flows";
  chart.y_most = 1;
  double least = 1e300;
  double most = 0;
  for (std::size_t sender = 0; sender < plan.senders.size(); ++sender) {
    ChartLine line = line_of(plan, sender);
    line.points = distribution(findings.group(point, sender));
    if (line.points.empty()) continue;
    least = std::min(least, line.points.front().first);
    most = std::max(most, line.points.back().first);
    chart.lines.push_back(std::move(line));
  }
  if (chart.lines.empty()) return {};
  const double ideal = ideal_us(findings, point);
  if (ideal > 0) {
    chart.marks.emplace_back(ideal, "the last one's ideal end");
    least = std::min(least, ideal);
  }
  // The axis starts at 0, unless that would push all differences into a corner.
  chart.x_least = least > most / 2 ? least - (most - least) * 0.08 : 0;
  return to_svg(chart);
}

std::string throughput_picture(const Findings& findings, std::size_t point) {
  const Plan& plan = findings.plans()[point];
  Chart chart;
  chart.title = "Throughput over time";
  chart.x_name = "since the start of the traffic, us";
  chart.y_name = "arriving at all hosts, Gb/s";
  for (std::size_t sender = 0; sender < plan.senders.size(); ++sender) {
    const auto& runs = findings.group(point, sender).runs;
    if (runs.empty() || runs.front().lasted_ps <= 0 || runs.front().slices.empty()) continue;
    const KeptRun& run = runs.front();
    ChartLine line = line_of(plan, sender);
    const double slice =
        static_cast<double>(run.lasted_ps) / static_cast<double>(run.slices.size());
    for (std::size_t i = 0; i < run.slices.size(); ++i) {
      line.points.emplace_back((static_cast<double>(i) + 0.5) * slice * kUs,
                               static_cast<double>(run.slices[i]) * kGbps / slice);
    }
    chart.lines.push_back(std::move(line));
  }
  if (chart.lines.empty()) return {};
  scale_to_terabits(chart);
  chart.marks = fault_marks(findings, point);
  return to_svg(chart);
}

std::string link_pictures(const Findings& findings, const Group& group) {
  if (group.runs.empty() || group.runs.front().links.empty()) return {};
  const fabric::Shape& shape = findings.plans()[group.point].fabric.shape;
  const fabric::Wiring wiring(shape);
  const KeptRun& run = group.runs.front();
  std::string pictures;
  for (std::uint32_t tier = 0; tier + 1 < shape.tiers.size(); ++tier) {
    for (const bool upwards : {true, false}) {
      pictures += uplink_map(wiring, run, tier, upwards, shape.tiers.size() == 2);
    }
  }
  if (pictures.empty()) pictures = port_map(wiring, run, false) + port_map(wiring, run, true);
  return pictures;
}

std::string range_picture(const Findings& findings) {
  const Plan& first = findings.plans().front();
  if (first.ranges.empty()) return {};
  const experiment::Range& across = first.ranges.front();
  Chart chart;
  chart.title = fmt::format("{} by {}", experiment::name_of(first.metric), across.path);
  chart.x_name = across.path;
  chart.y_name = axis_name(first.metric);
  const bool is_number = std::ranges::all_of(
      across.values, [](const auto& one) { return number_of(one).has_value(); });
  if (!is_number) chart.x_words = across.values;
  const std::size_t inner = findings.plans().size() / across.values.size();
  double most = 0;
  for (std::size_t sender = 0; sender < first.senders.size(); ++sender) {
    for (std::size_t k = 0; k < inner; ++k) {
      ChartLine line = line_of(first, sender);
      line.colour = colour_of(chart.lines.size());
      line.dots = true;
      if (inner > 1) {
        line.name += fmt::format(", {} {}", first.ranges[1].path, first.ranges[1].values[k]);
      }
      for (std::size_t i = 0; i < across.values.size(); ++i) {
        const auto value = findings.group(i * inner + k, sender).median(first.metric);
        const double x = is_number ? *number_of(across.values[i]) : static_cast<double>(i);
        most = std::max(most, x);
        if (value) line.points.emplace_back(x, std::max(0.0, *value));
      }
      std::ranges::sort(line.points);
      if (!line.points.empty()) chart.lines.push_back(std::move(line));
    }
  }
  if (chart.lines.empty()) return {};
  // A bound that would push all else into a corner is not shown.
  constexpr double kMuch = 3;
  if (first.expected.bound <= kMuch * greatest(chart)) {
    chart.lines.push_back(
        {"expected", "#c0392b", {{0, first.expected.bound}, {most, first.expected.bound}}, true});
  }
  return to_svg(chart);
}

}  // namespace hawser::tool
