// SPDX-License-Identifier: Apache-2.0
#include "sim/experiment/traffic.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>

#include "sim/experiment/matrix_run.hpp"
#include "sim/fabric/input_error.hpp"
#include "sim/traffic/generate.hpp"

namespace hawser::experiment {

namespace {

using fabric::InputError;
using fabric::Traffic;
using Kind = fabric::Traffic::Kind;

constexpr std::uint64_t kMostCount = 1'000'000;
constexpr std::uint64_t kMostPercent = 1000;

// A generator's numbers. The generator must ask for all of them.
class Numbers {
 public:
  explicit Numbers(const TrafficPlan& plan) : plan_(plan) {
    for (const auto& [name, value] : plan.numbers) unknown_.insert(name);
  }

  std::uint64_t needed(const std::string& name, std::uint64_t least, std::uint64_t most) {
    if (!plan_.numbers.contains(name)) {
      throw InputError("'" + plan_.generator + "' needs '" + name + "'");
    }
    return taken(name, least, most, least);
  }
  std::uint64_t taken(const std::string& name, std::uint64_t least, std::uint64_t most,
                      std::uint64_t usual) {
    unknown_.erase(name);
    const auto found = plan_.numbers.find(name);
    const std::uint64_t value = found == plan_.numbers.end() ? usual : found->second;
    if (value >= least && value <= most) return value;
    throw InputError("'" + name + "' is " + std::to_string(value) + ", but must be " +
                     std::to_string(least) + " to " + std::to_string(most));
  }
  std::uint32_t count(const std::string& name, std::uint64_t least, std::uint64_t usual) {
    return static_cast<std::uint32_t>(taken(name, least, kMostCount, usual));
  }
  void finish() const {
    if (unknown_.empty()) return;
    throw InputError("'" + plan_.generator + "' has no '" + *unknown_.begin() + "'");
  }

 private:
  const TrafficPlan& plan_;
  std::set<std::string> unknown_;
};

void take_moe(Numbers& numbers, Traffic& traffic) {
  traffic.experts = numbers.count("experts", 0, 0);
  traffic.tokens = static_cast<std::uint32_t>(numbers.needed("tokens", 1, kMostCount));
  traffic.top = numbers.count("top", 1, 2);
  traffic.skew = static_cast<double>(numbers.taken("skew_percent", 0, kMostPercent, 0)) / 100;
  traffic.compute =
      fabric::microseconds(static_cast<std::int64_t>(numbers.count("compute_us", 0, 0)));
}

// The seed of a run draws how many tokens go to a node, and a plan must be right for every seed.
void check_moe(const Traffic& traffic) {
  const std::uint64_t experts = traffic.experts > 0 ? traffic.experts : traffic.nodes;
  const std::uint64_t of_a_node = (experts + traffic.nodes - 1) / std::max(traffic.nodes, 1u);
  const std::uint64_t most = traffic.tokens * std::min<std::uint64_t>(traffic.top, of_a_node);
  if (traffic.bytes <= MatrixRun::kMostBytes / most) return;
  throw InputError("all " + std::to_string(traffic.tokens) + " tokens of a node, of " +
                   std::to_string(traffic.bytes) + " bytes each, may go to one other node, but " +
                   "an experiment's connections have at most " +
                   std::to_string(MatrixRun::kMostBytes) + " bytes");
}

void take_background(Numbers& numbers, Traffic& traffic) {
  constexpr std::uint64_t kLongestUs = 1'000'000'000;
  traffic.sizes = Traffic::Sizes::exponential;
  traffic.load = static_cast<double>(numbers.needed("load_percent", 1, 100)) / 100;
  traffic.bits_per_s =
      numbers.needed("gbps", 1, fabric::kFastest / fabric::kGigabit) * fabric::kGigabit;
  traffic.duration =
      fabric::microseconds(static_cast<std::int64_t>(numbers.needed("duration_us", 1, kLongestUs)));
}

Traffic read(Numbers& numbers, Kind kind, std::uint32_t hosts) {
  Traffic traffic{.kind = kind, .nodes = hosts};
  // Whatever seed draws the lengths of a background, none is too long.
  traffic.bytes =
      numbers.needed("bytes", 1,
                     kind == Kind::background ? MatrixRun::kMostBytes / Traffic::kMostMeans
                                              : MatrixRun::kMostBytes);
  const bool is_collective =
      kind != Kind::incast && kind != Kind::permutation && kind != Kind::background;
  if (is_collective) traffic.rounds = numbers.count("rounds", 1, 1);
  if (kind == Kind::ring) traffic.channels = numbers.count("channels", 1, 1);
  if (kind == Kind::all_to_all) traffic.window = numbers.count("window", 0, 0);
  if (kind == Kind::all_to_all) traffic.shuffled = numbers.taken("shuffled", 0, 1, 0) == 1;
  if (kind == Kind::incast) traffic.senders = numbers.count("senders", 0, 0);
  if (kind == Kind::incast) traffic.receivers = numbers.count("receivers", 1, 1);
  if (kind == Kind::moe) take_moe(numbers, traffic);
  if (kind == Kind::background) take_background(numbers, traffic);
  numbers.finish();
  if (kind == Kind::moe) check_moe(traffic);
  return traffic;
}

fabric::ConnectionMatrix made(const TrafficPlan& plan, std::uint32_t hosts, std::uint64_t seed) {
  const std::optional<Kind> kind = fabric::kind_named(plan.generator);
  if (!kind) {
    throw InputError("there is no generator '" + plan.generator +
                     "'; there are ring, butterfly, doubling, all_to_all, incast, permutation, "
                     "moe and background");
  }
  Numbers numbers(plan);
  return fabric::generate(read(numbers, *kind, hosts), seed);
}

}  // namespace

fabric::ConnectionMatrix make_matrix(const TrafficPlan& plan, std::uint32_t hosts,
                                     std::uint64_t seed) {
  fabric::ConnectionMatrix matrix = plan.generator.empty() ? plan.matrix : made(plan, hosts, seed);
  if (plan.group) group_by_receiver(matrix);
  if (plan.priority == 0) return matrix;
  for (fabric::Connection& one : matrix.connections) one.hint.priority = plan.priority;
  return matrix;
}

void add_beside(const TrafficPlan& plan, std::uint32_t hosts, std::uint64_t seed,
                fabric::ConnectionMatrix& matrix) {
  if (plan.beside.empty()) return;
  TrafficPlan background;
  background.generator = "background";
  background.numbers = plan.beside;
  const fabric::ConnectionMatrix added = make_matrix(background, hosts, ~seed);
  matrix.nodes = std::max(matrix.nodes, added.nodes);
  matrix.connections.insert(matrix.connections.end(), added.connections.begin(),
                            added.connections.end());
}

void group_by_receiver(fabric::ConnectionMatrix& matrix) {
  constexpr std::uint64_t kMostMembers = std::numeric_limits<std::uint16_t>::max();
  struct Received {
    std::uint64_t messages = 0;
    fabric::Instant start;
  };
  std::map<std::uint32_t, Received> receivers;
  bool is_any = false;
  for (const fabric::Connection& one : matrix.connections) {
    Received& received = receivers[one.to];
    is_any = is_any || received.messages > 0;
    if (++received.messages == 1) received.start = one.start;
  }
  if (!is_any) throw InputError("'group': no node receives more than one message");
  for (fabric::Connection& one : matrix.connections) {
    const Received& received = receivers.at(one.to);
    if (received.messages == 1) continue;
    if (one.trigger != 0 || one.start != received.start) {
      throw InputError("'group': the messages to node " + std::to_string(one.to) +
                       " don't start at one time");
    }
    one.hint = {.group = 1,
                .members = static_cast<std::uint16_t>(std::min(received.messages, kMostMembers))};
  }
}

}  // namespace hawser::experiment
