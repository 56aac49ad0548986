// SPDX-License-Identifier: Apache-2.0
#include "coll/rooted_plan.hpp"

#include <cstring>

namespace hawser::coll {

RootedPlan::RootedPlan(const RootedArguments& arguments) noexcept : a_(arguments) {
  if (!a_.has_lengths) awaited_ = saturate16(a_.ranks - 1);
  for (Rank rank = 0; rank < a_.blocks.size(); ++rank) {
    if (rank != a_.rank && a_.blocks[rank].bytes > 0) awaited_ = saturate16(awaited_ + 1u);
  }
}

Segment RootedPlan::block_of(Rank rank) const noexcept {
  if (!is_root()) return {0, a_.block_bytes};
  return a_.blocks.empty() ? Segment{rank * a_.block_bytes, a_.block_bytes} : a_.blocks[rank];
}

void RootedPlan::begin(std::byte*) noexcept {
  if (!is_root()) return;
  const Segment own = block_of(a_.rank);
  if (own.bytes == 0) return;
  const std::byte* from = a_.to_root ? a_.in : a_.in + own.offset;
  std::byte* to = a_.to_root ? a_.out + own.offset : a_.out;
  if (from != to) std::memcpy(to, from, own.bytes);
}

std::uint64_t RootedPlan::fill(Transfer& transfer, std::uint64_t index) const noexcept {
  transfer.peer = is_root() ? static_cast<Rank>((a_.root + 1 + index) % a_.ranks) : a_.root;
  const Segment block = block_of(transfer.peer);
  transfer.bytes = block.bytes;
  transfer.skip = block.bytes == 0;
  // Only the root knows how many messages of a gather are not empty, and its own hint says so.
  if (a_.to_root && awaited_ == 0) return block.offset;
  transfer.hint = {.group = 0,
                   .members = a_.to_root ? awaited_ : std::uint16_t{1},
                   .step = 0,
                   .steps = 1,
                   .collective = a_.to_root ? Collective::all_gather : Collective::broadcast};
  return block.offset;
}

Outgoing RootedPlan::send(std::uint64_t index) const noexcept {
  Outgoing outgoing;
  const std::uint64_t offset = fill(outgoing, index);
  if (!outgoing.skip) outgoing.data = a_.in + offset;
  return outgoing;
}

Incoming RootedPlan::receive(std::uint64_t index) const noexcept {
  Incoming incoming;
  const std::uint64_t offset = fill(incoming, index);
  if (!incoming.skip) incoming.data = a_.out + offset;
  return incoming;
}

}  // namespace hawser::coll
