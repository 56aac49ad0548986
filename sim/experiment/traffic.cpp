#include "sim/experiment/traffic.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "proto/random.hpp"
#include "sim/core/digest.hpp"
#include "sim/fabric/input_error.hpp"

namespace hawser::experiment {

namespace {

using fabric::Connection;
using fabric::ConnectionMatrix;
using fabric::InputError;

// A generator's numbers; all must be asked for.
class Numbers {
 public:
  explicit Numbers(const TrafficPlan& plan) : plan_(plan) {
    for (const auto& [name, value] : plan.numbers) unknown_.insert(name);
  }

  std::uint64_t take(const std::string& name, std::uint64_t least, std::uint64_t most) {
    if (!plan_.numbers.contains(name)) {
      throw InputError("'" + plan_.generator + "' needs '" + name + "'");
    }
    return take(name, least, most, least);
  }
  std::uint64_t take(const std::string& name, std::uint64_t least, std::uint64_t most,
                     std::uint64_t usual) {
    unknown_.erase(name);
    const auto found = plan_.numbers.find(name);
    const std::uint64_t value = found == plan_.numbers.end() ? usual : found->second;
    if (value >= least && value <= most) return value;
    throw InputError("'" + name + "' is " + std::to_string(value) + ", but must be " +
                     std::to_string(least) + " to " + std::to_string(most));
  }
  void finish() const {
    if (unknown_.empty()) return;
    throw InputError("'" + plan_.generator + "' has no '" + *unknown_.begin() + "'");
  }

 private:
  const TrafficPlan& plan_;
  std::set<std::string> unknown_;
};

std::vector<std::uint32_t> shuffled(std::uint32_t hosts, std::uint64_t seed) {
  std::vector<std::uint32_t> order(hosts);
  std::iota(order.begin(), order.end(), 0u);
  proto::Random random(sim::scramble(seed) + 2);
  for (std::uint32_t i = hosts; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

ConnectionMatrix permutation(Numbers& numbers, std::uint32_t hosts, std::uint64_t seed) {
  const std::uint64_t bytes = numbers.take("bytes", 1, MatrixRun::kMostBytes);
  numbers.finish();
  if (hosts < 2) throw InputError("a permutation needs at least 2 hosts");
  ConnectionMatrix matrix{.nodes = hosts, .connections = {}, .triggers = {}};
  // Around the circle of an order that is drawn: nobody sends to itself.
  const std::vector<std::uint32_t> order = shuffled(hosts, seed);
  for (std::uint32_t i = 0; i < hosts; ++i) {
    matrix.connections.push_back(
        {.from = order[i], .to = order[(i + 1) % hosts], .id = i + 1, .bytes = bytes});
  }
  return matrix;
}

ConnectionMatrix incast(Numbers& numbers, std::uint32_t hosts, std::uint64_t seed) {
  if (hosts < 2) throw InputError("an incast needs at least 2 hosts");
  const std::uint64_t bytes = numbers.take("bytes", 1, MatrixRun::kMostBytes);
  const auto senders = static_cast<std::uint32_t>(numbers.take("senders", 1, hosts - 1, hosts - 1));
  numbers.finish();
  ConnectionMatrix matrix{.nodes = hosts, .connections = {}, .triggers = {}};
  const std::vector<std::uint32_t> order = shuffled(hosts, seed);
  for (std::uint32_t i = 1; i <= senders; ++i) {
    matrix.connections.push_back({.from = order[i], .to = order[0], .id = i, .bytes = bytes});
  }
  return matrix;
}

}  // namespace

ConnectionMatrix make_matrix(const TrafficPlan& plan, std::uint32_t hosts, std::uint64_t seed) {
  if (plan.generator.empty()) return plan.matrix;
  Numbers numbers(plan);
  if (plan.generator == "permutation") return permutation(numbers, hosts, seed);
  if (plan.generator == "incast") return incast(numbers, hosts, seed);
  throw InputError("there is no generator '" + plan.generator +
                   "'; there are permutation and incast");
}

}  // namespace hawser::experiment
