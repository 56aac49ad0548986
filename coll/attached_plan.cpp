// SPDX-License-Identifier: Apache-2.0
#include "coll/attached_plan.hpp"

#include "coll/reduce.hpp"

namespace hawser::coll {
namespace {

constexpr std::uint32_t kRing = 0;
constexpr std::uint32_t kInputs = 1;
constexpr std::uint32_t kResults = 2;

RingArguments ring_of(const AttachedArguments& a) {
  const bool is_member = a.place >= a.attached;
  return {.collective = Collective::all_reduce,
          .rank = is_member ? a.place - a.attached : 0,
          .ranks = static_cast<Rank>(a.order.size()) - a.attached,
          .members = a.order.subspan(a.attached),
          .contributors = static_cast<Rank>(a.order.size()),
          .count = a.count,
          .element_bytes = size_of(a.type),
          .type = a.type,
          .reduction = a.reduction,
          .in = a.in,
          .out = a.out,
          .chunk_bytes = a.chunk_bytes,
          .depth = a.depth};
}

}  // namespace

AttachedPlan::AttachedPlan(const AttachedArguments& arguments) noexcept
    : a_(arguments), ring_(ring_of(arguments)), pieces_(ring_.pieces()) {}

void AttachedPlan::begin(std::byte* scratch) noexcept {
  ring_.begin(scratch);
  scratch_ = scratch + 2 * std::uint64_t{a_.depth} * a_.chunk_bytes;
}

std::uint64_t AttachedPlan::crossings() const noexcept {
  return pieces_ * (is_attached() ? members() : a_.attached);
}

std::uint64_t AttachedPlan::sends_of(std::uint32_t stream) const noexcept {
  if (stream == kRing) return is_attached() ? 0 : ring_.sends();
  return (stream == kInputs) == is_attached() ? crossings() : 0;
}

std::uint64_t AttachedPlan::receives_of(std::uint32_t stream) const noexcept {
  if (stream == kRing) return is_attached() ? 0 : ring_.receives();
  return (stream == kInputs) == is_attached() ? 0 : crossings();
}

std::uint32_t AttachedPlan::groups() const noexcept {
  return ring_.groups() + static_cast<std::uint32_t>(2 * pieces_);
}

AttachedPlan::Crossing AttachedPlan::crossing(std::uint64_t place) const noexcept {
  if (!is_attached()) {
    return {.piece = place / a_.attached,
            .owner = a_.place - a_.attached,
            .attached = static_cast<Rank>(place % a_.attached)};
  }
  // Attached ranks begin with different owners.
  return {.piece = place / members(),
          .owner = static_cast<Rank>((place + a_.place) % members()),
          .attached = a_.place};
}

RingPlan::Range AttachedPlan::range(const Crossing& at) const noexcept {
  return ring_.piece_of(at.owner, at.piece);
}

std::byte* AttachedPlan::slot(std::uint64_t place) const noexcept {
  return scratch_ + place % (2 * std::uint64_t{a_.depth}) * a_.chunk_bytes;
}

std::uint64_t AttachedPlan::last_input(std::uint64_t piece) const noexcept {
  return in_stream(kInputs, piece * a_.attached + a_.attached - 1);
}

// Without another member nothing goes round, and the last input completes the piece.
std::uint64_t AttachedPlan::completing(std::uint64_t piece) const noexcept {
  return members() == 1 ? last_input(piece) : in_stream(kRing, ring_.completing(piece));
}

void AttachedPlan::fill(Transfer& transfer, std::uint32_t stream,
                        const Crossing& at) const noexcept {
  const std::uint64_t elements = range(at).elements;
  transfer.peer = is_attached() ? a_.order[a_.attached + at.owner] : a_.order[at.attached];
  transfer.bytes = elements * size_of(a_.type);
  transfer.number = at.piece;
  transfer.skip = elements == 0;
  const std::uint64_t first = ring_.groups() + (stream == kResults ? pieces_ : 0);
  const std::uint64_t awaited = stream == kInputs ? a_.attached : ring_.blocks_with_piece(at.piece);
  transfer.hint = {.group = static_cast<std::uint32_t>(first + at.piece),
                   .members = saturate16(awaited),
                   .step = saturate16(stream == kInputs ? 0 : 1),
                   .steps = 2,
                   .collective = Collective::all_reduce};
}

Outgoing AttachedPlan::send(std::uint64_t index) const noexcept {
  const std::uint32_t stream = stream_of(index);
  if (stream == kRing) return ring_.send(index);
  const Crossing at = crossing(place_of(index));
  Outgoing outgoing;
  fill(outgoing, stream, at);
  if (stream == kInputs) {
    outgoing.data = a_.in + range(at).offset;
  } else {
    outgoing.data = a_.out + range(at).offset;
    if (!outgoing.skip) outgoing.after_receive = completing(at.piece);
  }
  return outgoing;
}

Incoming AttachedPlan::receive_input(std::uint64_t place) const noexcept {
  const Crossing at = crossing(place);
  Incoming incoming;
  fill(incoming, kInputs, at);
  incoming.data = slot(place);
  if (at.attached > 0) incoming.process_after_receive = in_stream(kInputs, place - 1);
  const std::uint64_t slots = 2 * std::uint64_t{a_.depth};
  if (place < slots) return incoming;
  // The slot's sum is in the next input's slot or, of the last input, in the result.
  const std::uint64_t before = place - slots;
  const bool is_last = (before + 1) % a_.attached == 0;
  incoming.after_receive =
      is_last ? completing(before / a_.attached) : in_stream(kInputs, before + 1);
  return incoming;
}

Incoming AttachedPlan::receive(std::uint64_t index) const noexcept {
  const std::uint32_t stream = stream_of(index);
  if (stream == kInputs) return receive_input(place_of(index));
  if (stream == kResults) {
    const Crossing at = crossing(place_of(index));
    Incoming incoming;
    fill(incoming, kResults, at);
    incoming.data = a_.out + range(at).offset;
    // In place, the result overwrites an input that must have been sent.
    if (a_.in == a_.out) incoming.after_send = in_stream(kInputs, place_of(index));
    return incoming;
  }
  Incoming incoming = ring_.receive(index);
  if (a_.attached > 0 && ring_.completes(index) && !incoming.skip) {
    incoming.process_after_receive = last_input(ring_.piece_number(index));
  }
  return incoming;
}

// Adds an attached rank's input to this owner's input, or to the sum so far.
std::uint64_t AttachedPlan::process_input(std::uint64_t place) noexcept {
  const Crossing at = crossing(place);
  const RingPlan::Range piece = range(at);
  const bool is_result = members() == 1 && at.attached + 1 == a_.attached;
  const std::byte* const so_far = at.attached == 0 ? a_.in + piece.offset : slot(place - 1);
  std::byte* const to = is_result ? a_.out + piece.offset : slot(place);
  reduce(a_.type, a_.reduction, to, so_far, slot(place), piece.elements);
  if (is_result) {
    finish(a_.type, a_.reduction, to, piece.elements, static_cast<Rank>(a_.order.size()));
  }
  return piece.elements * size_of(a_.type);
}

std::uint64_t AttachedPlan::process(std::uint64_t index) noexcept {
  switch (stream_of(index)) {
    case kInputs: return process_input(place_of(index));
    case kResults: return 0;
    default: break;
  }
  if (a_.attached == 0 || !ring_.completes(index)) return ring_.process(index);
  const std::uint64_t last = place_of(last_input(ring_.piece_number(index)));
  return ring_.process(index, slot(last));
}

}  // namespace hawser::coll
