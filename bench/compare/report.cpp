// SPDX-License-Identifier: Apache-2.0
#include "bench/compare/report.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "bench/compare/figures.hpp"

namespace hawser::bench {

namespace {

template <class Value>
std::vector<double> each(const std::vector<Sample>& samples, Value&& value) {
  std::vector<double> values;
  values.reserve(samples.size());
  for (const Sample& sample : samples) values.push_back(value(sample));
  return values;
}

// MB/s of a stream, microseconds of a round trip.
std::vector<double> figures(const Point& point, const std::vector<Sample>& samples) {
  return each(samples, [&](const Sample& sample) {
    const auto count = static_cast<double>(sample.count);
    return point.kind == Kind::stream
               ? 1e-6 * count * static_cast<double>(point.bytes) / sample.seconds
               : 1e6 * sample.seconds / count;
  });
}

double cpu_per_operation(const std::vector<Sample>& samples) {
  return median(each(samples, [](const Sample& sample) {
    return 1e6 * (sample.client_cpu + sample.server_cpu) / static_cast<double>(sample.count);
  }));
}

const std::vector<Sample>* find(const Results& results, const Point& point) {
  const auto found = results.samples.find(point);
  return found == results.samples.end() || found->second.empty() ? nullptr : &found->second;
}

// The median of the rounds' ratios. Other load in a round slows both transports of that round
// alike.
std::string ratio(const Results& results, const Point& point, const Point& other) {
  const auto* samples = find(results, point);
  const auto* others = find(results, other);
  if (samples == nullptr || others == nullptr) return "-";
  const std::vector<double> above = figures(point, *samples);
  const std::vector<double> below = figures(other, *others);
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(above.size(), below.size()); ++i) {
    ratios.push_back(above[i] / below[i]);
  }
  return fmt::format("{:.2f}", median(ratios));
}

void print_row(const Plan& plan, const Results& results, const Point& point) {
  const auto* samples = find(results, point);
  if (const auto failed = results.failed.find(point); failed != results.failed.end()) {
    fmt::print("  {:14} ended: {}\n", point.transport, failed->second);
  }
  if (samples == nullptr) return;
  const std::vector<double> values = figures(point, *samples);
  const auto [low, high] = std::ranges::minmax(values);
  const double cpu = cpu_per_operation(*samples);
  Point first = point;
  first.transport = plan.transports.front();
  fmt::print("  {:14} {:10.2f} {:>20} {:12.2f} {:10.3f} {:>8}", point.transport, median(values),
             fmt::format("{:.2f}..{:.2f}", low, high), cpu,
             1e3 * cpu / static_cast<double>(point.bytes), ratio(results, first, point));
  if (point.loss > 0) {
    Point lossless = point;
    lossless.loss = 0;
    fmt::print(" {:>21}", ratio(results, point, lossless));
  }
  fmt::print("\n");
}

void print_table(const Plan& plan, const Results& results, Point point) {
  fmt::print("\n{} {}{}\n  {:14} {:>10} {:>20} {:>12} {:>10} {:>13}{}\n",
             point.kind == Kind::stream ? "stream," : "round trip,", size_name(point.bytes),
             point.loss > 0 ? fmt::format(", {}% of the packets lost", 100 * point.loss) : "", "",
             point.kind == Kind::stream ? "MB/s" : "us", "min..max", "cpu us/op", "cpu ns/B",
             plan.transports.front() + " / it", point.loss > 0 ? "  of its own lossless" : "");
  for (const std::string& name : plan.transports) {
    point.transport = name;
    print_row(plan, results, point);
  }
}

nlohmann::json to_json(const Point& point, const std::vector<Sample>& samples) {
  nlohmann::json rounds = nlohmann::json::array();
  for (const Sample& sample : samples) {
    rounds.push_back({{"count", sample.count},
                      {"seconds", sample.seconds},
                      {"client_cpu_seconds", sample.client_cpu},
                      {"server_cpu_seconds", sample.server_cpu},
                      {"disturbance", sample.disturbance()}});
  }
  return {{"transport", point.transport},
          {"kind", point.kind == Kind::stream ? "stream" : "ping"},
          {"bytes", point.bytes},
          {"loss", point.loss},
          {"median",
           samples.empty() ? nlohmann::json() : nlohmann::json(median(figures(point, samples)))},
          {"unit", point.kind == Kind::stream ? "MB/s" : "us"},
          {"samples", rounds}};
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
  for (const double loss : plan.losses) {
    for (const std::size_t bytes : plan.sizes) {
      print_table(plan, results, {loss, Kind::stream, bytes, ""});
    }
    for (const std::size_t bytes : plan.ping_sizes) {
      print_table(plan, results, {loss, Kind::ping, bytes, ""});
    }
  }
}

void write_json(const Plan& plan, const Results& results, const std::string& path) {
  nlohmann::json all{{"transports", plan.transports},
                     {"losses", plan.losses},
                     {"left_out", results.left_out},
                     {"points", nlohmann::json::array()},
                     {"failed", nlohmann::json::array()}};
  for (const auto& [point, samples] : results.samples) {
    all["points"].push_back(to_json(point, samples));
  }
  for (const auto& [point, reason] : results.failed) {
    all["failed"].push_back(to_json(point, {}));
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

}  // namespace hawser::bench
