// SPDX-License-Identifier: Apache-2.0
#include "coll/reduce_plan.hpp"

#include <algorithm>
#include <bit>

#include "coll/reduce.hpp"

namespace hawser::coll {

ReducePlan::ReducePlan(const ReduceArguments& arguments) noexcept
    : a_(arguments), distance_((a_.rank + a_.ranks - a_.root) % a_.ranks) {
  piece_ = piece_elements(a_.count, size_of(a_.type), a_.chunk_bytes);
  pieces_ = (a_.count + piece_ - 1) / piece_;
  chain_ = a_.ranks + pieces_ < pieces_ * ceil_log2(a_.ranks);
  children_ = children_of(distance_);
}

std::uint32_t ReducePlan::children_of(Rank distance) const noexcept {
  if (chain_) return distance + 1 < a_.ranks ? 1 : 0;
  // A child differs from its parent in one bit below the parent's lowest set bit.
  const unsigned bits =
      distance == 0 ? ceil_log2(a_.ranks) : static_cast<unsigned>(std::countr_zero(distance));
  std::uint32_t children = 0;
  while (children < bits && distance + (Rank{1} << children) < a_.ranks) ++children;
  return children;
}

Rank ReducePlan::at_distance(Rank distance) const noexcept {
  return (a_.root + distance) % a_.ranks;
}

std::byte* ReducePlan::slot(std::uint64_t receive) const noexcept {
  return scratch_ + receive % slots() * a_.chunk_bytes;
}

std::uint64_t ReducePlan::piece_bytes(std::uint64_t piece) const noexcept {
  return std::min(piece_, a_.count - piece * piece_) * size_of(a_.type);
}

void ReducePlan::fill(Transfer& transfer, std::uint64_t piece, Rank parent) const noexcept {
  transfer.bytes = piece_bytes(piece);
  transfer.number = piece;
  transfer.hint = {.group = 0,
                   .members = saturate16(pieces_ * children_of(parent)),
                   .step = 0,
                   .steps = 1,
                   .collective = Collective::all_reduce};
}

Outgoing ReducePlan::send(std::uint64_t index) const noexcept {
  Outgoing outgoing;
  const Rank parent = chain_ ? distance_ - 1 : distance_ & (distance_ - 1);
  fill(outgoing, index, parent);
  outgoing.peer = at_distance(parent);
  if (children_ == 0) {
    outgoing.data = a_.in + index * piece_ * size_of(a_.type);
    return outgoing;
  }
  const std::uint64_t last = index * children_ + children_ - 1;
  outgoing.data = slot(last);
  outgoing.after_receive = last;
  return outgoing;
}

Incoming ReducePlan::receive(std::uint64_t index) const noexcept {
  Incoming incoming;
  const auto child = static_cast<std::uint32_t>(index % children_);
  fill(incoming, index / children_, distance_);
  incoming.peer = at_distance(distance_ + (Rank{1} << child));
  incoming.data = slot(index);
  if (index > 0) incoming.process_after_receive = index - 1;
  if (index < slots()) return incoming;
  // The slot is free once its sum has been taken into the next child's, or has been sent.
  const std::uint64_t before = index - slots();
  const bool is_sent = distance_ != 0 && is_last_child(before);
  incoming.after_receive = is_last_child(before) ? before : before + 1;
  if (is_sent) incoming.after_send = before / children_;
  return incoming;
}

std::uint64_t ReducePlan::process(std::uint64_t index) noexcept {
  const std::uint64_t piece = index / children_;
  const std::uint64_t offset = piece * piece_ * size_of(a_.type);
  const std::uint64_t bytes = piece_bytes(piece);
  const std::byte* const so_far = index % children_ == 0 ? a_.in + offset : slot(index - 1);
  std::byte* const to = distance_ == 0 && is_last_child(index) ? a_.out + offset : slot(index);
  const std::uint64_t elements = bytes / size_of(a_.type);
  reduce(a_.type, a_.reduction, to, so_far, slot(index), elements);
  if (distance_ == 0 && is_last_child(index)) {
    finish(a_.type, a_.reduction, to, elements, a_.ranks);
  }
  return bytes;
}

}  // namespace hawser::coll
