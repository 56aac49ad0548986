// SPDX-License-Identifier: Apache-2.0
#include <numeric>
#include <utility>

#include "sim/traffic/generators.hpp"

namespace hawser::fabric {

void add_permutation(MatrixBuilder& builder, const Traffic& traffic, proto::Random& random) {
  std::vector<std::uint32_t> to(traffic.nodes);
  std::iota(to.begin(), to.end(), 0u);
  // Sattolo's algorithm makes one cycle, so that no node sends to itself.
  for (std::uint32_t i = traffic.nodes - 1; i > 0; --i) std::swap(to[i], to[random.below(i)]);
  const std::uint32_t step = builder.new_step();
  for (std::uint32_t from = 0; from < traffic.nodes; ++from) {
    builder.send({.from = from, .to = to[from], .bytes = traffic.bytes, .step = step});
  }
}

}  // namespace hawser::fabric
