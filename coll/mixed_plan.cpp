// SPDX-License-Identifier: Apache-2.0
#include "coll/mixed_plan.hpp"

namespace hawser::coll {
namespace {

constexpr std::uint32_t kStreams = AttachedPlan::kStreams;

// The part that an entry belongs to, and its index there.
std::uint32_t part_of(std::uint64_t index) { return stream_of(index) / kStreams; }
std::uint64_t inner(std::uint64_t index) {
  return in_stream(stream_of(index) % kStreams, place_of(index));
}

void shift(std::uint64_t& index, std::uint32_t part) {
  if (index != kNothing) index = in_stream(stream_of(index) + part * kStreams, place_of(index));
}

}  // namespace

MixedPlan::MixedPlan(const AttachedArguments& whole, const Mix& mix) noexcept {
  std::uint32_t group = 0;
  for (const Mix::Part& part : mix.parts()) {
    AttachedArguments arguments = whole;
    const std::uint64_t offset = part.begin * size_of(whole.type);
    arguments.attached = part.attached;
    arguments.count = part.elements;
    arguments.in += offset;
    arguments.out += offset;
    parts_[count_] = AttachedPlan(arguments);
    first_groups_[count_] = group;
    group += parts_[count_].groups();
    ++count_;
  }
}

void MixedPlan::begin(std::byte* scratch) noexcept {
  for (std::uint32_t i = 0; i < count_; ++i) {
    parts_[i].begin(scratch);
    scratch += parts_[i].scratch_bytes();
  }
}

std::uint64_t MixedPlan::sends_of(std::uint32_t stream) const noexcept {
  return parts_[stream / kStreams].sends_of(stream % kStreams);
}

std::uint64_t MixedPlan::receives_of(std::uint32_t stream) const noexcept {
  return parts_[stream / kStreams].receives_of(stream % kStreams);
}

std::uint32_t MixedPlan::groups() const noexcept {
  return count_ == 0 ? 0 : first_groups_[count_ - 1] + parts_[count_ - 1].groups();
}

// Numbers tell the messages of two ranks apart, so those of different parts differ.
void MixedPlan::fit(Transfer& transfer, std::uint32_t part) const noexcept {
  transfer.number = transfer.number * Mix::kMostParts + part;
  transfer.hint.group += first_groups_[part];
  shift(transfer.after_receive, part);
  shift(transfer.after_send, part);
}

Outgoing MixedPlan::send(std::uint64_t index) const noexcept {
  const std::uint32_t part = part_of(index);
  Outgoing outgoing = parts_[part].send(inner(index));
  fit(outgoing, part);
  return outgoing;
}

Incoming MixedPlan::receive(std::uint64_t index) const noexcept {
  const std::uint32_t part = part_of(index);
  Incoming incoming = parts_[part].receive(inner(index));
  fit(incoming, part);
  shift(incoming.process_after_receive, part);
  shift(incoming.process_after_send, part);
  return incoming;
}

std::uint64_t MixedPlan::process(std::uint64_t index) noexcept {
  return parts_[part_of(index)].process(inner(index));
}

}  // namespace hawser::coll
