// SPDX-License-Identifier: Apache-2.0
#include "bench/one_sided/report.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "bench/compare/figures.hpp"
#include "bench/one_sided/marks.hpp"

namespace hawser::bench::one_sided {

namespace {

const char* unit_name(Unit unit) {
  switch (unit) {
    case Unit::us:
    case Unit::us_one_way: return "us";
    case Unit::mb_per_s: return "MB/s";
    case Unit::million_per_s: break;
  }
  return "M/s";
}

void print_row(const Plan& plan, const Results& results, const Point& point) {
  if (const auto failed = results.failed.find(point); failed != results.failed.end()) {
    fmt::print("  {:27} ended: {}\n", point.transport, failed->second);
  }
  if (const auto it = results.refused.find({point.transport, point.kind});
      it != results.refused.end()) {
    fmt::print("  {:27} refused: {}\n", point.transport, it->second);
  }
  const auto found = results.samples.find(point);
  if (found == results.samples.end() || found->second.empty()) return;
  const std::vector<double> values = figures(point, found->second);
  const auto [low, high] = std::ranges::minmax(values);
  Point first = point;
  first.transport = plan.transports.front();
  const auto ratio = ratio_of(results, first, point);
  fmt::print("  {:27} {:10.3f} {:>22} {:>12}\n", point.transport, median(values),
             fmt::format("{:.3f}..{:.3f}", low, high),
             ratio ? fmt::format("{:.3f}", ratio->middle) : "-");
}

void print_marks(const std::vector<Mark>& marks) {
  if (marks.empty()) return;
  fmt::print("\nmarks\n  {:62} {:>8} {:>15} {:>9}\n", "", "ratio", "quartiles", "mark");
  for (const Mark& mark : marks) {
    fmt::print("  {:62} {:8.3f} {:>15} {:>9} {}\n", mark.what, mark.ratio.middle,
               fmt::format("{:.3f}..{:.3f}", mark.ratio.low, mark.ratio.high),
               fmt::format("{} {}", mark.at_least ? ">=" : "<=", mark.limit),
               mark.is_met() ? "met" : "missed");
  }
}

nlohmann::json to_json(const Point& point) {
  return {{"transport", point.transport},
          {"kind", row_of(point.kind).name},
          {"bytes", point.bytes},
          {"unit", unit_name(row_of(point.kind).unit)}};
}

nlohmann::json to_json(const Point& point, const std::vector<Sample>& samples) {
  nlohmann::json rounds = nlohmann::json::array();
  for (const Sample& sample : samples) {
    rounds.push_back({{"count", sample.count},
                      {"seconds", sample.seconds},
                      {"disturbance", sample.disturbance()}});
  }
  nlohmann::json all = to_json(point);
  if (!samples.empty()) all["median"] = median(figures(point, samples));
  all["samples"] = std::move(rounds);
  return all;
}

nlohmann::json to_json(const Mark& mark) {
  return {{"what", mark.what},          {"of", to_json(mark.of)},    {"than", to_json(mark.than)},
          {"ratio", mark.ratio.middle}, {"low", mark.ratio.low},     {"high", mark.ratio.high},
          {"limit", mark.limit},        {"at_least", mark.at_least}, {"met", mark.is_met()}};
}

}  // namespace

void print_tables(const Plan& plan, const Results& results) {
  std::vector<double> disturbances;
  for (const auto& [point, samples] : results.samples) {
    for (const Sample& sample : samples) disturbances.push_back(sample.disturbance());
  }
  if (!disturbances.empty()) {
    fmt::print("waiting for cores that ran something else: {:.1f}% of the median sample's time\n",
               100 * median(disturbances));
  }
  for (const auto& [name, reason] : results.left_out) {
    fmt::print("left out: {}: {}\n", name, reason);
  }
  for (const auto& [kind, bytes] : plan.cells()) {
    const KindRow& row = row_of(kind);
    fmt::print("\n{}, {}\n  {:27} {:>10} {:>22} {:>12}\n", row.title, size_name(bytes), "",
               unit_name(row.unit), "min..max", plan.transports.front() + " / it");
    for (const std::string& name : plan.transports) print_row(plan, results, {kind, bytes, name});
  }
  print_marks(judge(results));
}

void write_json(const Plan& plan, const Results& results, const std::string& path) {
  nlohmann::json all{{"transports", plan.transports},      {"left_out", results.left_out},
                     {"points", nlohmann::json::array()},  {"marks", nlohmann::json::array()},
                     {"refused", nlohmann::json::array()}, {"failed", nlohmann::json::array()}};
  for (const auto& [point, samples] : results.samples) {
    all["points"].push_back(to_json(point, samples));
  }
  for (const Mark& mark : judge(results)) all["marks"].push_back(to_json(mark));
  for (const auto& [where, reason] : results.refused) {
    all["refused"].push_back(
        {{"transport", where.first}, {"kind", row_of(where.second).name}, {"reason", reason}});
  }
  for (const auto& [point, reason] : results.failed) {
    all["failed"].push_back(to_json(point));
    all["failed"].back()["reason"] = reason;
  }
  if (path == "-") {
    fmt::print("{}\n", all.dump());
    return;
  }
  std::ofstream file(path);
  file << all.dump(1) << '\n';
  if (!file) throw std::runtime_error("can't write " + path);
}

}  // namespace hawser::bench::one_sided
