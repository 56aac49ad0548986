// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "sim/traffic/generators.hpp"

namespace hawser::fabric {

void add_incast(MatrixBuilder& builder, const Traffic& traffic) {
  if (traffic.receivers == 0 || traffic.receivers >= traffic.nodes) {
    throw InputError("an incast of " + std::to_string(traffic.nodes) + " nodes has 1 to " +
                     std::to_string(traffic.nodes - 1) + " receivers, not " +
                     std::to_string(traffic.receivers));
  }
  const std::uint32_t others = traffic.nodes - traffic.receivers;
  if (others < traffic.receivers || traffic.senders > others / traffic.receivers) {
    throw InputError(std::to_string(traffic.receivers) + " receivers with " +
                     std::to_string(std::max(traffic.senders, 1u)) +
                     " senders each need more than " + std::to_string(traffic.nodes) + " nodes");
  }
  const std::uint32_t step = builder.new_step();
  const std::uint32_t first_group = builder.new_groups(traffic.receivers);
  for (std::uint32_t receiver = 0; receiver < traffic.receivers; ++receiver) {
    // The senders that this receiver gets when the others are dealt out in turn.
    std::uint32_t senders = (others - receiver - 1) / traffic.receivers + 1;
    if (traffic.senders > 0) senders = traffic.senders;
    for (std::uint32_t i = 0; i < senders; ++i) {
      builder.send({.from = traffic.receivers + receiver + i * traffic.receivers,
                    .to = receiver,
                    .bytes = traffic.bytes,
                    .step = step,
                    .hint = {.group = first_group + receiver,
                             .members = static_cast<std::uint16_t>(senders),
                             .step = 0,
                             .steps = 1}});
    }
  }
}

}  // namespace hawser::fabric
