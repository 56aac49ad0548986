// SPDX-License-Identifier: Apache-2.0
#include "coll/broadcast_plan.hpp"

#include <algorithm>
#include <bit>

namespace hawser::coll {

BroadcastPlan::BroadcastPlan(const BroadcastArguments& arguments) noexcept
    : a_(arguments), distance_((a_.rank + a_.ranks - a_.root) % a_.ranks) {
  piece_ = piece_elements(a_.bytes, 1, a_.chunk_bytes);
  pieces_ = (a_.bytes + piece_ - 1) / piece_;
  chain_ = a_.ranks + pieces_ < pieces_ * ceil_log2(a_.ranks);
  if (chain_) {
    children_ = distance_ + 1 < a_.ranks ? 1 : 0;
    return;
  }
  // A child differs from its parent in one bit below the parent's lowest set bit.
  const unsigned bits =
      distance_ == 0 ? ceil_log2(a_.ranks) : static_cast<unsigned>(std::countr_zero(distance_));
  while (children_ < bits && distance_ + (Rank{1} << children_) < a_.ranks) ++children_;
}

Rank BroadcastPlan::at_distance(Rank distance) const noexcept {
  return (a_.root + distance) % a_.ranks;
}

void BroadcastPlan::fill(Transfer& transfer, std::uint64_t piece) const noexcept {
  transfer.bytes = std::min(piece_, a_.bytes - piece * piece_);
  transfer.number = piece;
  transfer.hint = {.group = 0,
                   .members = saturate16(pieces_),
                   .step = 0,
                   .steps = 1,
                   .collective = Collective::broadcast};
}

Outgoing BroadcastPlan::send(std::uint64_t index) const noexcept {
  Outgoing outgoing;
  const std::uint64_t piece = index / children_;
  // The child with the largest subtree comes first.
  const auto child = children_ - 1 - static_cast<std::uint32_t>(index % children_);
  fill(outgoing, piece);
  outgoing.peer = at_distance(distance_ + (Rank{1} << child));
  outgoing.data = a_.data + piece * piece_;
  if (distance_ != 0) outgoing.after_receive = piece;
  return outgoing;
}

Incoming BroadcastPlan::receive(std::uint64_t index) const noexcept {
  Incoming incoming;
  fill(incoming, index);
  incoming.peer = at_distance(chain_ ? distance_ - 1 : distance_ & (distance_ - 1));
  incoming.data = a_.data + index * piece_;
  return incoming;
}

}  // namespace hawser::coll
