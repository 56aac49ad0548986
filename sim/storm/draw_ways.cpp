// Ways that are dead in one direction and for one queue.
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

}  // namespace hawser::sim
