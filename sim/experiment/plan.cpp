// SPDX-License-Identifier: Apache-2.0
#include "sim/experiment/plan.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <span>

#include "proto/base/random.hpp"
#include "sim/core/digest.hpp"
#include "sim/experiment/matrix_run.hpp"
#include "sim/experiment/senders.hpp"
#include "sim/experiment/traffic.hpp"

namespace hawser::experiment {

namespace {

constexpr std::uint32_t kMostHosts = 8192;
constexpr std::uint64_t kMostRuns = 1'000'000;
constexpr std::uint32_t kMostOverhead = 1024;
constexpr std::size_t kMostRanges = 2;
// The longest time that a run may take, by limit_ms. Nothing later would be seen to end. Times can
// be added without a check of their sum as long as they stay below it.
constexpr std::int64_t kLongestUs = 1'000'000'000;

std::string text(std::uint64_t number) { return std::to_string(number); }

std::string listed(std::span<const std::string_view> names) {
  std::string all;
  for (const std::string_view name : names) {
    all += all.empty() ? "" : ", ";
    all += name;
  }
  return all;
}

std::string about_words(const Plan& plan) {
  if (plan.question.empty()) return "question: it is the report's title, and must not be empty";
  if (!std::isfinite(plan.expected.bound)) return "expect: a bound is a finite number";
  if (plan.expected.source.empty()) {
    return "expect.source: name the source of the figure or the bound";
  }
  if (!(plan.runtime_s > 0)) return "runtime_s: a plan takes more than 0 CPU-seconds";
  if (plan.memory_mb == 0) return "memory_mb: a plan takes at least 1 MB";
  const bool is_of_fault =
      plan.metric == Metric::capacity_back_us || plan.metric == Metric::left_used;
  if (is_of_fault && plan.faults.empty()) {
    return "metric: " + std::string(name_of(plan.metric)) +
           " counts from the first fault, and there is none";
  }
  if (plan.metric == Metric::p99_step_excess_us && plan.traffic.generator == "background") {
    return "metric: p99_step_excess_us needs steps, and the messages of a background have none";
  }
  return {};
}

std::string about_seeds(const Plan& plan) {
  if (plan.tune.meets(plan.judge)) {
    return "seeds: tune and judge have " + text(std::max(plan.tune.first, plan.judge.first)) +
           " in common: a seed that tunes can't also judge";
  }
  for (const SeedRange* const seeds : {&plan.tune, &plan.judge}) {
    if (seeds->count() > kMostRuns) return "seeds: at most " + text(kMostRuns) + " of a kind";
  }
  return {};
}

std::string about_fabric(const Plan& plan) {
  const fabric::Shape& shape = plan.fabric.shape;
  if (shape.hosts > kMostHosts) {
    return "fabric: " + text(shape.hosts) + " hosts, but an experiment has at most " +
           text(kMostHosts);
  }
  if (plan.fabric.nic.overhead_bytes > kMostOverhead) {
    return "fabric.overhead_bytes: a packet has at most " + text(kMostOverhead) +
           " besides its datagram";
  }
  const std::uint32_t largest = plan.fabric.nic.max_datagram_bytes + plan.fabric.nic.overhead_bytes;
  if (shape.queue.capacity < largest) {
    return "fabric.queue_bytes: " + text(shape.queue.capacity) +
           " is less than a packet, which has up to " + text(largest);
  }
  if (shape.queue.trim_to >= largest) {
    return "fabric.trim_to_bytes: " + text(shape.queue.trim_to) + " is no less than a packet";
  }
  try {
    static_cast<void>(fabric::measure(shape));
  } catch (const fabric::InputError& error) {
    return std::string("fabric: ") + error.what();
  }
  return {};
}

std::string about_traffic(const Plan& plan) {
  std::string where = "traffic: ";
  try {
    fabric::ConnectionMatrix matrix = make_matrix(plan.traffic, plan.fabric.shape.hosts, 1);
    if (matrix.connections.empty()) return "traffic: there is no connection";
    for (const fabric::Connection& one : matrix.connections) {
      if (one.bytes <= MatrixRun::kMostBytes) continue;
      std::string what = "traffic: " + plan.traffic.file;
      if (one.line > 0) what.append(1, ':').append(text(one.line));
      return what + ": a connection of " + text(one.bytes) +
             " bytes, but an experiment's have at most " + text(MatrixRun::kMostBytes);
    }
    where = "traffic.beside: ";
    add_beside(plan.traffic, plan.fabric.shape.hosts, 1, matrix);
    if (matrix.nodes <= plan.fabric.shape.hosts) return {};
    return "traffic: the matrix has " + text(matrix.nodes) + " nodes, but the fabric only " +
           text(plan.fabric.shape.hosts) + " hosts";
  } catch (const fabric::InputError& error) {
    return where + error.what();
  }
}

std::string about_end(const FaultPlan& fault) {
  const std::string late = "ends after " + text(kLongestUs) + " us";
  const std::int64_t rest = (fabric::microseconds(kLongestUs) - fault.at - fault.lasts).ps;
  if (fault.times > 1 && (rest < 0 || fault.every.ps > rest / (fault.times - 1))) {
    return ".every_us: with at_us and lasts_us, the last of " + text(fault.times) + " " + late;
  }
  return rest < 0 ? ".lasts_us: with at_us, it " + late : std::string{};
}

std::string about_fault(const FaultPlan& fault) {
  const bool of_switch = fault.kind == FaultPlan::Kind::switch_down;
  if (of_switch && fault.at_switch.empty()) return ".switch: a name is expected";
  if (!of_switch && fault.link.empty() && fault.drawn == 0 && fault.nics == 0) {
    return ": it hits nothing: name a link, a number of cables, or NICs of a host";
  }
  return about_end(fault);
}

std::string about_faults(const Plan& plan) {
  for (std::size_t i = 0; i < plan.faults.size(); ++i) {
    const std::string what = about_fault(plan.faults[i]);
    if (!what.empty()) return "faults[" + text(i) + "]" + what;
  }
  try {
    const fabric::Wiring wiring(plan.fabric.shape);
    const auto faults = faults_of(plan, wiring, plan.judge.first, {});
    fabric::EventWheel events;
    fabric::Network network(events, plan.fabric.shape, 1);
    static_cast<void>(fabric::Faults(events, network, faults));
  } catch (const fabric::InputError& error) {
    return std::string("faults: ") + error.what();
  }
  return {};
}

std::string about_senders(const Plan& plan) {
  if (plan.senders.empty()) return "senders: there is none";
  std::set<std::string_view> seen;
  for (const std::string& name : plan.senders) {
    if (std::ranges::find(sender_names(), name) == sender_names().end()) {
      return "senders: there is no '" + name + "'; there are " + listed(sender_names());
    }
    if (!seen.insert(name).second) return "senders: '" + name + "' is named twice";
  }
  return {};
}

std::string about_runs(const Plan& plan) {
  if (plan.ranges.size() > kMostRanges) {
    return "ranges: at most " + text(kMostRanges) + " keys can be ranges";
  }
  std::uint64_t runs = plan.senders.size() * std::max(plan.tune.count(), plan.judge.count());
  for (const Range& range : plan.ranges) {
    if (range.values.empty()) return "ranges: '" + range.path + "' has no values";
    runs *= range.values.size();
  }
  if (runs <= kMostRuns) return {};
  return "a plan has at most " + text(kMostRuns) + " runs, not " + text(runs) +
         ": points x senders x seeds";
}

// ---- faults

std::optional<std::uint32_t> link_named(const fabric::Wiring& wiring, const std::string& name) {
  for (std::uint32_t link = 0; link < wiring.links(); ++link) {
    if (wiring.name(link) == name) return link;
  }
  return std::nullopt;
}

std::optional<std::uint32_t> switch_named(const fabric::Wiring& wiring, const std::string& name) {
  for (std::uint32_t link = 0; link < wiring.links(); ++link) {
    if (!wiring.ends_at_port(link) && wiring.name(link).ends_with("-> " + name)) {
      return wiring.end(link);
    }
  }
  return std::nullopt;
}

// The upward links of all cables between switches; each host's first link if there are none.
std::vector<std::uint32_t> cables_to_draw(const fabric::Wiring& wiring) {
  std::vector<std::uint32_t> cables;
  for (std::uint32_t one = 0; one < wiring.switches(); ++one) {
    for (std::uint32_t n = 0; n < wiring.at(one).up; ++n) cables.push_back(wiring.up(one, n));
  }
  for (std::uint32_t port = 0; cables.empty() && port < wiring.ports(); ++port) {
    cables.push_back(wiring.from_port(port));
  }
  return cables;
}

std::vector<std::uint32_t> cables_of_host(const FaultPlan& fault, const fabric::Wiring& wiring) {
  const std::uint32_t nics = wiring.port(1, 0);
  const std::uint32_t hosts = wiring.ports() / nics;
  if (fault.host >= hosts) {
    throw fabric::InputError("the fabric has no host " + text(fault.host) + ": they are 0 to " +
                             text(hosts - 1));
  }
  if (fault.nics > nics) {
    throw fabric::InputError(text(fault.nics) + " NICs can't be hit, as a host has only " +
                             text(nics));
  }
  std::vector<std::uint32_t> cables;
  for (std::uint32_t nic = 0; nic < fault.nics; ++nic) {
    cables.push_back(wiring.from_port(wiring.port(fault.host, nic)));
  }
  return cables;
}

std::vector<std::uint32_t> targets_of(const FaultPlan& fault, const fabric::Wiring& wiring,
                                      proto::Random& random) {
  if (!fault.at_switch.empty()) {
    const auto found = switch_named(wiring, fault.at_switch);
    if (!found) throw fabric::InputError("the fabric has no switch '" + fault.at_switch + "'");
    return {*found};
  }
  if (!fault.link.empty()) {
    const auto found = link_named(wiring, fault.link);
    if (found) return {*found};
    throw fabric::InputError("the fabric has no link '" + fault.link + "'; its links are called " +
                             "'" + wiring.name(0) + "' to '" + wiring.name(wiring.links() - 1) +
                             "'");
  }
  if (fault.nics > 0) return cables_of_host(fault, wiring);
  std::vector<std::uint32_t> cables = cables_to_draw(wiring);
  if (fault.drawn > cables.size()) {
    throw fabric::InputError(text(fault.drawn) + " cables can't be drawn from " +
                             text(cables.size()));
  }
  for (std::uint32_t i = 0; i < fault.drawn; ++i) {
    std::swap(cables[i], cables[i + random.below(cables.size() - i)]);
  }
  cables.resize(fault.drawn);
  return cables;
}

fabric::Fault begin_of(const FaultPlan& plan, std::uint32_t target, const fabric::Wiring& wiring) {
  using Kind = fabric::Fault::Kind;
  fabric::Fault fault;
  fault.target = plan.ways == FaultPlan::Ways::to ? wiring.back(target) : target;
  fault.both_ways = plan.ways == FaultPlan::Ways::both;
  fault.silent = plan.silent;
  fault.bits_per_s = plan.bits_per_s;
  fault.probability = plan.probability;
  switch (plan.kind) {
    case FaultPlan::Kind::link_down: fault.kind = Kind::link_down; break;
    case FaultPlan::Kind::link_rate: fault.kind = Kind::link_rate; break;
    case FaultPlan::Kind::link_loss: fault.kind = Kind::link_loss; break;
    case FaultPlan::Kind::switch_down: fault.kind = Kind::switch_down; break;
  }
  return fault;
}

fabric::Fault end_of(fabric::Fault fault, std::uint64_t usual_rate) {
  using Kind = fabric::Fault::Kind;
  if (fault.kind == Kind::link_down) fault.kind = Kind::link_up;
  if (fault.kind == Kind::switch_down) fault.kind = Kind::switch_up;
  fault.bits_per_s = usual_rate;
  fault.probability = 0;
  return fault;
}

}  // namespace

bool holds(Metric metric, const Expectation& expected, double value) {
  return more_is_better(metric) ? value >= expected.bound : value <= expected.bound;
}

std::string complaint_about(const Plan& plan) {
  for (const auto look : {about_words, about_seeds, about_senders, about_runs, about_fabric,
                          about_traffic, about_faults}) {
    if (std::string what = look(plan); !what.empty()) return what;
  }
  return {};
}

std::vector<std::vector<std::size_t>> points_of(const std::vector<Range>& ranges) {
  std::vector<std::vector<std::size_t>> points{{}};
  for (const Range& range : ranges) {
    std::vector<std::vector<std::size_t>> longer;
    for (const std::vector<std::size_t>& point : points) {
      for (std::size_t value = 0; value < range.values.size(); ++value) {
        longer.push_back(point);
        longer.back().push_back(value);
      }
    }
    points = std::move(longer);
  }
  return points;
}

std::vector<fabric::Fault> faults_of(const Plan& plan, const fabric::Wiring& wiring,
                                     std::uint64_t seed, fabric::Instant begun) {
  proto::Random random(sim::scramble(seed) + 1);  // apart from the seed's other draws
  std::vector<fabric::Fault> faults;
  for (const FaultPlan& one : plan.faults) {
    for (const std::uint32_t target : targets_of(one, wiring, random)) {
      const bool of_switch = one.kind == FaultPlan::Kind::switch_down;
      const std::uint64_t usual = of_switch ? 0 : wiring.settings(target).bits_per_s;
      for (std::uint32_t i = 0; i < one.times; ++i) {
        fabric::Fault fault = begin_of(one, target, wiring);
        fault.at = begun + one.at + one.every * static_cast<std::int64_t>(i);
        faults.push_back(fault);
        if (one.lasts == fabric::Span{}) continue;
        fault = end_of(fault, usual);
        fault.at = fault.at + one.lasts;
        faults.push_back(fault);
      }
    }
  }
  return faults;
}

}  // namespace hawser::experiment
