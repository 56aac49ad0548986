// SPDX-License-Identifier: Apache-2.0
#include "coll/ring_plan.hpp"

#include <algorithm>
#include <cstring>

#include "coll/reduce.hpp"

namespace hawser::coll {

RingPlan::RingPlan(const RingArguments& arguments) noexcept : a_(arguments) {
  const std::uint32_t around = a_.ranks - 1;
  reduce_steps_ = a_.collective == Collective::all_gather ? 0 : around;
  steps_ = reduce_steps_ + (a_.collective == Collective::reduce_scatter ? 0 : around);
  const std::uint64_t longest = longest_block();
  piece_ = piece_elements(longest, a_.element_bytes, a_.chunk_bytes);
  pieces_ = (longest + piece_ - 1) / piece_;
  lanes_ = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(pieces_, 1, a_.depth));
  slabs_ = (pieces_ + lanes_ - 1) / lanes_;
  entries_ = slabs_ * steps_ * lanes_;
}

void RingPlan::begin(std::byte* scratch) noexcept {
  scratch_ = scratch;
  if (a_.collective != Collective::all_gather) return;
  std::byte* own = a_.out + block_begin(a_.rank);
  const std::uint64_t bytes = block_elements(a_.rank) * a_.element_bytes;
  if (own != a_.in && bytes > 0) std::memcpy(own, a_.in, bytes);
}

RingPlan::Position RingPlan::position(std::uint64_t index) const noexcept {
  const std::uint64_t step_of_all = index / lanes_;
  return {.slab = step_of_all / steps_,
          .step = static_cast<std::uint32_t>(step_of_all % steps_),
          .lane = static_cast<std::uint32_t>(index % lanes_)};
}

std::uint64_t RingPlan::index(const Position& position) const noexcept {
  return (position.slab * steps_ + position.step) * lanes_ + position.lane;
}

Rank RingPlan::member(std::uint32_t place) const noexcept {
  return a_.members.empty() ? place : a_.members[place];
}

Rank RingPlan::sent_block(std::uint32_t step) const noexcept {
  // Reduce step s sends block rank - 1 - s, so that the last step leaves block `rank` here. Gather
  // step t sends block rank - t.
  const std::uint32_t behind = step < reduce_steps_ ? step + 1 : step - reduce_steps_;
  return (a_.rank + a_.ranks - behind) % a_.ranks;
}

Rank RingPlan::received_block(std::uint32_t step) const noexcept {
  return (sent_block(step) + a_.ranks - 1) % a_.ranks;
}

std::uint64_t RingPlan::block_elements(Rank block) const noexcept {
  if (!a_.blocks.empty()) return a_.blocks[block].bytes / a_.element_bytes;
  if (a_.collective != Collective::all_reduce) return a_.count;
  return a_.count / a_.ranks + (block < a_.count % a_.ranks ? 1 : 0);
}

std::uint64_t RingPlan::block_begin(Rank block) const noexcept {
  if (!a_.blocks.empty()) return a_.blocks[block].offset;
  if (a_.collective != Collective::all_reduce) return block * a_.count * a_.element_bytes;
  const std::uint64_t elements =
      block * (a_.count / a_.ranks) + std::min<std::uint64_t>(block, a_.count % a_.ranks);
  return elements * a_.element_bytes;
}

std::uint64_t RingPlan::longest_block() const noexcept {
  std::uint64_t longest = block_elements(0);
  for (const Segment& block : a_.blocks) {
    longest = std::max(longest, block.bytes / a_.element_bytes);
  }
  return longest;
}

RingPlan::Range RingPlan::range(Rank block, const Position& position) const noexcept {
  return piece_of(block, position.slab * lanes_ + position.lane);
}

RingPlan::Range RingPlan::piece_of(Rank block, std::uint64_t piece) const noexcept {
  const std::uint64_t length = block_elements(block);
  const std::uint64_t begin = std::min(length, piece * piece_);
  return {.offset = block_begin(block) + begin * a_.element_bytes,
          .offset_in_block = begin * a_.element_bytes,
          .elements = std::min(piece_, length - begin)};
}

std::byte* RingPlan::slot(const Position& position) const noexcept {
  const std::uint64_t turn =
      (position.slab * reduce_steps_ + position.step) * lanes_ + position.lane;
  return scratch_ + turn % (2 * std::uint64_t{a_.depth}) * a_.chunk_bytes;
}

// The slot is free once its previous piece has been sent on or, in the last reduce step, processed.
void RingPlan::wait_for_slot(const Position& position, Incoming& incoming) const noexcept {
  const std::uint64_t turn =
      (position.slab * reduce_steps_ + position.step) * lanes_ + position.lane;
  const std::uint64_t slots = 2 * std::uint64_t{a_.depth};
  if (turn < slots) return;
  const std::uint64_t step_of_all = (turn - slots) / lanes_;
  const Position previous{.slab = step_of_all / reduce_steps_,
                          .step = static_cast<std::uint32_t>(step_of_all % reduce_steps_),
                          .lane = static_cast<std::uint32_t>((turn - slots) % lanes_)};
  if (previous.step + 1 == reduce_steps_) {
    incoming.after_receive = index(previous);
  } else {
    incoming.after_send = index(previous) + lanes_;
  }
}

// In place, a gather step overwrites a block of the input, so that block must have been used. Block
// rank - 1 was sent from the input in reduce step 0; the others were reduced in an earlier step.
void RingPlan::wait_in_place(std::uint64_t index, const Position& position,
                             Incoming& incoming) const noexcept {
  if (reduce_steps_ == 0 || a_.in != a_.out) return;
  const std::uint32_t gather_step = position.step - reduce_steps_;
  const std::uint64_t around = std::uint64_t{reduce_steps_} * lanes_;
  if (gather_step == 0) {
    incoming.after_send = index - around;
  } else {
    incoming.after_receive = index - around - lanes_;
  }
}

Hint RingPlan::hint(Rank block, const Position& position) const noexcept {
  const std::uint64_t pieces = (block_elements(block) + piece_ - 1) / piece_;
  const std::uint64_t first = position.slab * lanes_;
  const std::uint64_t members =
      pieces > first ? std::min<std::uint64_t>(pieces - first, lanes_) : 0;
  return {.group = static_cast<std::uint32_t>(position.slab * steps_ + position.step),
          .members = saturate16(members),
          .step = saturate16(position.step),
          .steps = saturate16(steps_),
          .collective = a_.collective};
}

Outgoing RingPlan::send(std::uint64_t index) const noexcept {
  const Position at = position(index);
  const Rank block = sent_block(at.step);
  const Range piece = range(block, at);
  Outgoing outgoing;
  outgoing.peer = member((a_.rank + 1) % a_.ranks);
  outgoing.bytes = piece.elements * a_.element_bytes;
  outgoing.number = index;
  outgoing.skip = piece.elements == 0;
  outgoing.hint = hint(block, at);
  if (at.step > 0) outgoing.after_receive = index - lanes_;
  if (at.step >= reduce_steps_) {
    outgoing.data = a_.out + piece.offset;
  } else if (at.step == 0) {
    outgoing.data = a_.in + piece.offset;
  } else {
    outgoing.data = slot({.slab = at.slab, .step = at.step - 1, .lane = at.lane});
  }
  return outgoing;
}

Incoming RingPlan::receive(std::uint64_t index) const noexcept {
  const Position at = position(index);
  const Rank block = received_block(at.step);
  const Range piece = range(block, at);
  Incoming incoming;
  incoming.peer = member((a_.rank + a_.ranks - 1) % a_.ranks);
  incoming.bytes = piece.elements * a_.element_bytes;
  incoming.number = index;
  incoming.skip = piece.elements == 0;
  incoming.hint = hint(block, at);
  if (at.step < reduce_steps_) {
    incoming.data = slot(at);
    wait_for_slot(at, incoming);
  } else {
    incoming.data = a_.out + piece.offset;
    wait_in_place(index, at, incoming);
  }
  return incoming;
}

std::uint64_t RingPlan::blocks_with_piece(std::uint64_t piece) const noexcept {
  std::uint64_t blocks = 0;
  if (a_.blocks.empty() && a_.collective == Collective::all_reduce) {
    // Block 0 is the longest, and the others are as long or one element shorter.
    const std::uint64_t long_blocks = a_.count % a_.ranks;
    const bool in_short = block_elements(a_.ranks - 1) > piece * piece_;
    return in_short ? a_.ranks : long_blocks;
  }
  for (Rank block = 0; block < a_.ranks; ++block) blocks += piece_of(block, piece).elements > 0;
  return blocks;
}

bool RingPlan::completes(std::uint64_t index) const noexcept {
  return position(index).step + 1 == reduce_steps_;
}

std::uint64_t RingPlan::piece_number(std::uint64_t index) const noexcept {
  const Position at = position(index);
  return at.slab * lanes_ + at.lane;
}

std::uint64_t RingPlan::completing(std::uint64_t piece) const noexcept {
  return index({.slab = piece / lanes_,
                .step = reduce_steps_ - 1,
                .lane = static_cast<std::uint32_t>(piece % lanes_)});
}

std::uint64_t RingPlan::process(std::uint64_t index) noexcept {
  const Position at = position(index);
  if (at.step >= reduce_steps_) return 0;
  return process(index, a_.in + range(received_block(at.step), at).offset);
}

std::uint64_t RingPlan::process(std::uint64_t index, const std::byte* own) noexcept {
  const Position at = position(index);
  const Range piece = range(received_block(at.step), at);
  std::byte* received = slot(at);
  std::byte* target = received;
  if (at.step + 1 == reduce_steps_) {
    target =
        a_.out + (a_.collective == Collective::all_reduce ? piece.offset : piece.offset_in_block);
  }
  reduce(a_.type, a_.reduction, target, own, received, piece.elements);
  if (at.step + 1 == reduce_steps_) {
    const Rank contributors = a_.contributors == 0 ? a_.ranks : a_.contributors;
    finish(a_.type, a_.reduction, target, piece.elements, contributors);
  }
  return piece.elements * a_.element_bytes;
}

}  // namespace hawser::coll
