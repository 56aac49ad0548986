// SPDX-License-Identifier: Apache-2.0
#include "tool/sim/facts.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "sim/experiment/ideal.hpp"
#include "sim/experiment/traffic.hpp"

namespace hawser::tool {

using experiment::Plan;
using fabric::Shape;

std::string count_of(std::uint64_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

namespace {

constexpr double kUs = 1e-6;

std::string bytes_text(std::uint64_t bytes) {
  if (bytes == fabric::kUnlimited) return "unlimited";
  if (bytes >= 1'000'000) return fmt::format("{:.4g} MB", static_cast<double>(bytes) / 1e6);
  if (bytes >= 10'000) return fmt::format("{:.4g} kB", static_cast<double>(bytes) / 1e3);
  return fmt::format("{} B", bytes);
}

std::string ns_text(fabric::Span span) {
  const auto ns = static_cast<double>(span.ps) / 1e3;
  return ns >= 1000 ? fmt::format("{:g} us", ns / 1e3) : fmt::format("{:g} ns", ns);
}

// The round trip of an empty packet between the two hosts that are furthest apart.
fabric::Span round_trip(const Plan& plan) {
  fabric::ConnectionMatrix matrix;
  matrix.nodes = plan.fabric.shape.hosts;
  matrix.connections.push_back({.from = 0, .to = matrix.nodes - 1, .bytes = 0});
  const auto ideal = experiment::ideal_completion(
      matrix, plan.fabric.shape, {.overhead_bytes = plan.fabric.nic.overhead_bytes});
  return ideal.last - fabric::Instant{};
}

std::string marks_text(const fabric::QueueSettings& queue) {
  if (queue.mark_min == fabric::kUnlimited) return "none";
  return fmt::format("on packets that leave {} to {} queued behind them",
                     bytes_text(queue.mark_min), bytes_text(queue.mark_max));
}

std::string placement_text(const Shape& shape) {
  if (shape.nics == 1) return "one NIC a host";
  switch (shape.placement) {
    case fabric::Placement::together: return fmt::format("{} NICs a host, at one leaf", shape.nics);
    case fabric::Placement::rails: return fmt::format("{} NICs a host, on rails", shape.nics);
    case fabric::Placement::planes: return fmt::format("{} NICs a host, in planes", shape.nics);
  }
  return {};
}

std::string target_text(const experiment::FaultPlan& fault) {
  if (!fault.link.empty()) return fault.link;
  if (!fault.at_switch.empty()) return fault.at_switch;
  if (fault.nics == 0) return count_of(fault.drawn, "drawn cable");
  return fmt::format("{} of host {}", count_of(fault.nics, "NIC"), fault.host);
}

std::string fault_text(const experiment::FaultPlan& fault) {
  using Ways = experiment::FaultPlan::Ways;
  std::string text = fmt::format("{} at {:g} us: {}",
                                 experiment::kFaultKindNames[static_cast<std::size_t>(fault.kind)],
                                 static_cast<double>(fault.at.ps) * kUs, target_text(fault));
  if (fault.bits_per_s > 0) {
    text += fmt::format(", {:g} Gb/s", static_cast<double>(fault.bits_per_s) / 1e9);
  }
  if (fault.probability > 0) text += fmt::format(", {:g} of all packets", fault.probability);
  if (fault.ways == Ways::from) text += ", only from there";
  if (fault.ways == Ways::to) text += ", only to there";
  if (fault.silent) text += ", silent";
  text += fault.lasts.ps > 0
              ? fmt::format(", for {:g} us", static_cast<double>(fault.lasts.ps) * kUs)
              : std::string(", to the end");
  if (fault.times == 1) return text;
  return text + fmt::format(", {} times, each {:g} us after the one before", fault.times,
                            static_cast<double>(fault.every.ps) * kUs);
}

}  // namespace

Facts fabric_facts(const Plan& plan) {
  const Shape& shape = plan.fabric.shape;
  Facts facts{{"Fabric", plan.fabric.said},
              {"Hosts", fmt::format("{}, {}", shape.hosts, placement_text(shape))}};
  const char* const names[] = {"Leaves", shape.tiers.size() == 2 ? "Spines" : "Upper switches",
                               "Cores"};
  for (std::size_t i = 0; i < shape.tiers.size(); ++i) {
    const fabric::Tier& tier = shape.tiers[i];
    facts.emplace_back(names[i],
                       fmt::format("{} down{}; cables below them {:g} Gb/s, {}; switch latency {}",
                                   count_of(tier.down, "cable"),
                                   tier.up > 0 ? fmt::format(" and {} up", tier.up) : std::string(),
                                   static_cast<double>(tier.bits_per_s) / 1e9,
                                   ns_text(tier.cable_latency), ns_text(tier.switch_latency)));
  }
  const fabric::Span trip = round_trip(plan);
  const std::uint64_t in_trip = static_cast<std::uint64_t>(
      static_cast<double>(trip.ps) * static_cast<double>(shape.tiers[0].bits_per_s) / 8e12);
  facts.emplace_back("Round trip",
                     fmt::format("at most {:.2f} us, for headers alone; {} at a NIC's rate",
                                 static_cast<double>(trip.ps) * kUs, bytes_text(in_trip)));
  facts.emplace_back(
      "Packets", fmt::format("{} B of payload at most (MTU: datagrams of {} B), {} B of headers "
                             "besides the protocol's own",
                             proto::NicCaps{}.payload_bytes, plan.fabric.nic.max_datagram_bytes,
                             plan.fabric.nic.overhead_bytes));
  facts.emplace_back("Switch queues", bytes_text(shape.queue.capacity) + " each");
  facts.emplace_back("Marks", marks_text(shape.queue));
  facts.emplace_back("Overflow", shape.queue.trim_to > 0
                                     ? fmt::format("is trimmed to {} B", shape.queue.trim_to)
                                     : std::string("is dropped"));
  facts.emplace_back("Routing", shape.adaptive ? "adaptive: the shortest queue of a switch"
                                               : fmt::format("by hash; {} entropies a NIC",
                                                             plan.fabric.nic.entropies));
  return facts;
}

Facts traffic_facts(const Findings& findings, std::size_t point, std::uint64_t seed) {
  const Plan& plan = findings.plans()[point];
  const auto matrix = experiment::make_matrix(plan.traffic, plan.fabric.shape.hosts, seed);
  std::uint64_t all = 0;
  std::uint64_t least = ~std::uint64_t{0};
  std::uint64_t most = 0;
  for (const fabric::Connection& one : matrix.connections) {
    all += one.bytes;
    least = std::min(least, one.bytes);
    most = std::max(most, one.bytes);
  }
  const std::string sizes = least == most
                                ? bytes_text(least) + " each"
                                : fmt::format("{} to {} each", bytes_text(least), bytes_text(most));
  Facts facts{{"Traffic", plan.traffic.said},
              {"Flows", fmt::format("{}, {}, {} in all", matrix.connections.size(), sizes,
                                    bytes_text(all))}};
  if (!matrix.triggers.empty()) {
    facts.emplace_back("Triggers", fmt::format("{}", matrix.triggers.size()));
  }
  const char* const hints[] = {"none", "with receives", "with sends and receives"};
  facts.emplace_back("Hints", hints[static_cast<std::size_t>(plan.hints)]);
  const auto& runs = findings.group(point, 0).runs;
  if (!runs.empty() && runs.front().failure.empty()) {
    facts.emplace_back(
        "Ideal completion",
        fmt::format("{:.2f} us: the bytes of the busiest cables, plus the path's latency",
                    static_cast<double>(runs.front().numbers.ideal_ps) * kUs));
  }
  std::string faults;
  for (const experiment::FaultPlan& fault : plan.faults) {
    faults += (faults.empty() ? "" : "; ") + fault_text(fault);
  }
  facts.emplace_back("Faults", faults.empty() ? "none" : faults);
  return facts;
}

}  // namespace hawser::tool
