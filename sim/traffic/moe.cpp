// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/traffic/collectives.hpp"
#include "sim/traffic/generators.hpp"

namespace hawser::fabric {

namespace {

// Experts by how often they are drawn. The seed decides which one is how popular.
class Popularity {
 public:
  Popularity(std::uint32_t experts, double skew, proto::Random& random) : expert_(experts) {
    std::iota(expert_.begin(), expert_.end(), 0u);
    for (std::uint32_t left = experts; left > 1; --left) {
      std::swap(expert_[left - 1], expert_[random.below(left)]);
    }
    double sum = 0;
    for (std::uint32_t i = 0; i < experts; ++i) {
      sum += std::pow(static_cast<double>(i) + 1, -skew);
      until_.push_back(sum);
    }
  }

  std::uint32_t draw(proto::Random& random) const {
    const double at = static_cast<double>(random.next() >> 11) * 0x1.0p-53 * until_.back();
    const auto found = std::upper_bound(until_.begin(), until_.end(), at);
    return expert_[std::min<std::size_t>(static_cast<std::size_t>(found - until_.begin()),
                                         expert_.size() - 1)];
  }

 private:
  std::vector<std::uint32_t> expert_;
  std::vector<double> until_;  // sums of weights
};

void check(const Traffic& traffic, std::uint32_t experts) {
  if (traffic.tokens == 0)
    throw InputError("moe traffic needs tokens, the number that each node has");
  if (traffic.top == 0 || traffic.top > experts) {
    throw InputError("a token goes to 1 to " + std::to_string(experts) +
                     " of as many experts, not to " + std::to_string(traffic.top));
  }
  if (!(traffic.skew >= 0) || traffic.skew > 8) {
    throw InputError("skew is 0 (all experts alike) to 8");
  }
  if (traffic.compute < Span{}) throw InputError("compute can't be negative");
  constexpr std::uint64_t kMostTokens = 100'000'000;
  if (std::uint64_t{traffic.nodes} * traffic.tokens > kMostTokens / traffic.rounds) {
    throw InputError("more than " + std::to_string(kMostTokens) +
                     " tokens in all: let one stand for several, with as many times the bytes");
  }
  if (std::uint64_t{traffic.nodes} * traffic.nodes > 8 * MatrixBuilder::kMostConnections) {
    throw InputError("moe traffic is between at most 8000 nodes, each pair of which it counts");
  }
}

// Bytes from each node to each.
std::vector<std::uint64_t> dispatched(const Traffic& traffic, std::uint32_t experts,
                                      const Popularity& popularity, proto::Random& random) {
  std::vector<std::uint64_t> bytes(std::size_t{traffic.nodes} * traffic.nodes);
  std::vector<std::uint32_t> taken;
  for (std::uint32_t from = 0; from < traffic.nodes; ++from) {
    for (std::uint32_t token = 0; token < traffic.tokens; ++token) {
      taken.clear();
      while (taken.size() < traffic.top) {
        // An expert that is drawn again is skipped. After many skips the next free one is taken, so
        // that an extreme skew takes no longer.
        std::uint32_t expert = popularity.draw(random);
        for (int tries = 0; tries < 16 && std::ranges::count(taken, expert) > 0; ++tries) {
          expert = popularity.draw(random);
        }
        while (std::ranges::count(taken, expert) > 0) expert = (expert + 1) % experts;
        taken.push_back(expert);
        bytes[std::size_t{from} * traffic.nodes + expert % traffic.nodes] += traffic.bytes;
      }
    }
  }
  return bytes;
}

}  // namespace

void add_moe(MatrixBuilder& builder, const Traffic& traffic, proto::Random& random) {
  const std::uint32_t experts = traffic.experts > 0 ? traffic.experts : traffic.nodes;
  check(traffic, experts);
  const Popularity popularity(experts, traffic.skew, random);
  std::vector<std::uint32_t> members(traffic.nodes);
  std::iota(members.begin(), members.end(), 0u);
  for (std::uint32_t round = 0; round < traffic.rounds; ++round) {
    const std::vector<std::uint64_t> bytes = dispatched(traffic, experts, popularity, random);
    const auto at = [&](std::uint32_t from, std::uint32_t to) {
      return bytes[std::size_t{from} * traffic.nodes + to];
    };
    add_all_to_all(builder, members, {.bytes = at, .step = 0, .steps = 2});
    for (const std::uint32_t node : members) builder.compute(node, traffic.compute);
    const auto back = [&](std::uint32_t from, std::uint32_t to) { return at(to, from); };
    add_all_to_all(builder, members, {.bytes = back, .step = 1, .steps = 2});
  }
}

}  // namespace hawser::fabric
