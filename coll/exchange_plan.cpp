// SPDX-License-Identifier: Apache-2.0
#include "coll/exchange_plan.hpp"

#include <algorithm>
#include <cstring>

namespace hawser::coll {

ExchangePlan::ExchangePlan(const ExchangeArguments& arguments) noexcept : a_(arguments) {
  if (a_.to.empty()) {
    if (in_place()) pieces_ = (a_.block_bytes + a_.chunk_bytes - 1) / a_.chunk_bytes;
    awaited_ = saturate16((a_.ranks - 1) * pieces_);
    return;
  }
  for (Rank rank = 0; rank < a_.ranks; ++rank) {
    if (rank != a_.rank && a_.from[rank].bytes > 0) ++awaited_;
  }
}

void ExchangePlan::begin(std::byte* scratch) noexcept {
  scratch_ = scratch;
  const Segment from = block_to(a_.rank);
  const Segment to = block_from(a_.rank);
  const std::uint64_t bytes = std::min(from.bytes, to.bytes);
  if (!in_place() && bytes > 0) std::memcpy(a_.out + to.offset, a_.in + from.offset, bytes);
}

Rank ExchangePlan::partner(std::uint64_t index) const noexcept {
  const auto round = static_cast<Rank>(index / pieces_);
  return (round + a_.ranks - a_.rank) % a_.ranks;
}

Segment ExchangePlan::block_to(Rank rank) const noexcept {
  return a_.to.empty() ? Segment{rank * a_.block_bytes, a_.block_bytes} : a_.to[rank];
}

Segment ExchangePlan::block_from(Rank rank) const noexcept {
  return a_.from.empty() ? Segment{rank * a_.block_bytes, a_.block_bytes} : a_.from[rank];
}

Segment ExchangePlan::part(const Segment& block, std::uint64_t index) const noexcept {
  if (pieces_ == 1) return block;
  const std::uint64_t begin = index % pieces_ * a_.chunk_bytes;
  return {block.offset + begin, std::min(a_.chunk_bytes, block.bytes - begin)};
}

std::byte* ExchangePlan::slot(std::uint64_t index) const noexcept {
  return scratch_ + index % (2 * std::uint64_t{a_.depth}) * a_.chunk_bytes;
}

Hint ExchangePlan::hint() const noexcept {
  return {.group = 0,
          .members = saturate16(awaited_),
          .step = 0,
          .steps = 1,
          .collective = Collective::all_to_all};
}

Outgoing ExchangePlan::send(std::uint64_t index) const noexcept {
  Outgoing outgoing;
  outgoing.peer = partner(index);
  const Segment segment = part(block_to(outgoing.peer), index);
  outgoing.bytes = segment.bytes;
  outgoing.number = index % pieces_;
  outgoing.skip = outgoing.peer == a_.rank || segment.bytes == 0;
  if (!outgoing.skip) outgoing.data = a_.in + segment.offset;
  // If lengths differ, only the receiver knows how many other messages it awaits, and its own hint
  // says so.
  if (a_.to.empty()) outgoing.hint = hint();
  return outgoing;
}

Incoming ExchangePlan::receive(std::uint64_t index) const noexcept {
  Incoming incoming;
  incoming.peer = partner(index);
  const Segment segment = part(block_from(incoming.peer), index);
  incoming.bytes = segment.bytes;
  incoming.number = index % pieces_;
  incoming.skip = incoming.peer == a_.rank || segment.bytes == 0;
  incoming.hint = hint();
  if (!in_place()) {
    if (!incoming.skip) incoming.data = a_.out + segment.offset;
    return incoming;
  }
  incoming.data = slot(index);
  incoming.process_after_send = index;
  const std::uint64_t slots = 2 * std::uint64_t{a_.depth};
  if (index >= slots) incoming.after_receive = index - slots;
  return incoming;
}

std::uint64_t ExchangePlan::process(std::uint64_t index) noexcept {
  if (!in_place()) return 0;
  const Segment segment = part(block_from(partner(index)), index);
  std::memcpy(a_.out + segment.offset, slot(index), segment.bytes);
  return segment.bytes;
}

}  // namespace hawser::coll
