// SPDX-License-Identifier: Apache-2.0
#include "tool/run/latencies.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

namespace hawser::tool {
namespace {

constexpr unsigned kClassBits = 5;
constexpr std::uint64_t kClasses = std::uint64_t{1} << kClassBits;  // of a power of two

std::uint32_t class_of(std::uint64_t ns) {
  if (ns < kClasses) return static_cast<std::uint32_t>(ns);
  const auto shift = static_cast<unsigned>(std::bit_width(ns)) - 1 - kClassBits;
  return static_cast<std::uint32_t>(shift * kClasses + (ns >> shift));
}

std::uint64_t last_of(std::uint32_t number) {
  if (number < kClasses) return number;
  const std::uint64_t shift = number / kClasses - 1;
  return ((number % kClasses + kClasses + 1) << shift) - 1;
}

}  // namespace

std::string_view to_string(OneSidedKind kind) {
  switch (kind) {
    case OneSidedKind::write: return "write";
    case OneSidedKind::read: return "read";
    case OneSidedKind::fetching_add: return "fetching_add";
    case OneSidedKind::plain_add: return "plain_add";
    case OneSidedKind::compare_and_swap: return "compare_and_swap";
  }
  return "?";
}

void LatencyCounts::add(std::uint64_t ns) {
  ++classes_[class_of(ns)];
  ++count_;
  longest_ns_ = std::max(longest_ns_, ns);
}

void LatencyCounts::add(const LatencyCounts& other) {
  for (const auto& [number, count] : other.classes_) classes_[number] += count;
  count_ += other.count_;
  longest_ns_ = std::max(longest_ns_, other.longest_ns_);
}

std::uint64_t LatencyCounts::percentile(double percent) const {
  const auto wanted = static_cast<std::uint64_t>(
      std::max(1.0, std::ceil(percent / 100 * static_cast<double>(count_))));
  std::uint64_t seen = 0;
  for (const auto& [number, count] : classes_) {
    seen += count;
    if (seen >= wanted) return std::min(last_of(number), longest_ns_);
  }
  return longest_ns_;
}

void to_json(nlohmann::json& json, const LatencyCounts& counts) {
  json = {{"longest_ns", counts.longest_ns_}, {"classes", counts.classes_}};
}

void from_json(const nlohmann::json& json, LatencyCounts& counts) {
  json.at("longest_ns").get_to(counts.longest_ns_);
  json.at("classes").get_to(counts.classes_);
  counts.count_ = 0;
  for (const auto& [number, count] : counts.classes_) counts.count_ += count;
}

void OperationTimes::add(const OperationTimes& other) {
  for (std::size_t kind = 0; kind < of.size(); ++kind) {
    for (std::size_t when = 0; when < of[kind].size(); ++when) {
      of[kind][when].add(other.of[kind][when]);
    }
  }
}

void to_json(nlohmann::json& json, const OperationTimes& times) {
  json = nlohmann::json::array();
  for (std::size_t kind = 0; kind < times.of.size(); ++kind) {
    for (std::size_t when = 0; when < times.of[kind].size(); ++when) {
      const LatencyCounts& counts = times.of[kind][when];
      if (counts.count() > 0) json.push_back({{"kind", kind}, {"when", when}, {"times", counts}});
    }
  }
}

void from_json(const nlohmann::json& json, OperationTimes& times) {
  times = {};
  for (const nlohmann::json& row : json) {
    row.at("times").get_to(
        times.of.at(row.at("kind").get<std::size_t>()).at(row.at("when").get<std::size_t>()));
  }
}

}  // namespace hawser::tool
