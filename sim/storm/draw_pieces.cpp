// SPDX-License-Identifier: Apache-2.0
// Sends from several pieces and receives into several.
#include "hawser/types.hpp"
#include "sim/storm/draw.hpp"

namespace hawser::sim {

void draw_pieces(proto::Random& random, Plan& plan) {
  const double share = random.chance(0.5) ? 0.5 : 0.0;  // half of the programs know no lists
  const auto draw = [&] {
    return random.chance(share) ? static_cast<std::uint32_t>(1 + random.below(kMostPieces)) : 0u;
  };
  for (MessagePlan& message : plan.messages) message.pieces = draw();
  for (ReceivePlan& receive : plan.receives) receive.pieces = draw();
}

}  // namespace hawser::sim
