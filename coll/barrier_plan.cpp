// SPDX-License-Identifier: Apache-2.0
#include "coll/barrier_plan.hpp"

namespace hawser::coll {

void BarrierPlan::fill(Transfer& transfer, std::uint64_t index) const noexcept {
  transfer.number = index;
  transfer.hint = {.group = static_cast<std::uint32_t>(index),
                   .members = 1,
                   .step = saturate16(index),
                   .steps = saturate16(ceil_log2(ranks_)),
                   .collective = Collective::barrier};
}

Outgoing BarrierPlan::send(std::uint64_t index) const noexcept {
  Outgoing outgoing;
  fill(outgoing, index);
  outgoing.peer = (rank_ + (Rank{1} << index)) % ranks_;
  // Stage i - 1 must have arrived, and so must the stages before it, which its message vouches for.
  if (index > 0) outgoing.after_receive = index - 1;
  return outgoing;
}

Incoming BarrierPlan::receive(std::uint64_t index) const noexcept {
  Incoming incoming;
  fill(incoming, index);
  incoming.peer = (rank_ + ranks_ - (Rank{1} << index)) % ranks_;
  if (index > 0) incoming.process_after_receive = index - 1;
  return incoming;
}

}  // namespace hawser::coll
