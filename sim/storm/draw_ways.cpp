// SPDX-License-Identifier: Apache-2.0
// Ways that are dead in one direction and for one queue, pairs of NICs without a way, and turns
// that take long.
#include "sim/storm/draw.hpp"

namespace hawser::sim {

using proto::nanoseconds;
using proto::Random;

void draw_ways(Random& random, Plan& plan) {
  if (!random.chance(0.25)) return;
  for (std::uint64_t count = 1 + random.below(6); count > 0; --count) {
    FaultPlan fault = draw_place(random, plan);
    fault.kind = random.chance(0.4) ? FaultKind::mute_queue : FaultKind::deaf_queue;
    fault.amount = random.chance(0.7) ? 1 : 0;  // control
    fault.lasts = nanoseconds(logarithmic(random, 1'000'000, 500'000'000));
    plan.faults.push_back(fault);
    plan.heals_at = std::max(plan.heals_at, fault.at + fault.lasts);
  }
}

// Networks whose NICs can't address those of another network. One network is at every host, if only
// by one NIC.
void draw_networks(Random& random, Plan& plan) {
  if (!random.chance(0.2)) return;
  const std::uint64_t count = 2 + random.below(3);
  const bool mostly_one = random.chance(0.5);
  for (HostPlan& host : plan.hosts) {
    for (PortPlan& nic : host.nics) {
      nic.network = mostly_one && random.chance(0.7) ? 0 : small(random, count);
    }
    host.nics[random.below(host.nics.size())].network = 0;
  }
}

void draw_standing(Random& random, Plan& plan) {
  if (!random.chance(0.2)) return;
  for (std::uint64_t count = 1 + random.below(4); count > 0; --count) {
    FaultPlan fault = draw_place(random, plan);
    fault.kind = FaultKind::stands;
    fault.amount = static_cast<double>(random.below(3));
    const std::uint64_t timeout = plan.tunables.peer_timeout_ms * 1'000'000;
    fault.lasts = nanoseconds(random.chance(0.2) ? timeout + random.below(timeout)
                                                 : logarithmic(random, 10'000, timeout));
    plan.faults.push_back(fault);
    plan.heals_at = std::max(plan.heals_at, fault.at + fault.lasts);
  }
}

}  // namespace hawser::sim
