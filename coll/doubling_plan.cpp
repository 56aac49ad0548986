// SPDX-License-Identifier: Apache-2.0
#include "coll/doubling_plan.hpp"

#include <bit>
#include <cstring>

#include "coll/reduce.hpp"

namespace hawser::coll {

DoublingPlan::DoublingPlan(const DoublingArguments& arguments) noexcept
    : a_(arguments), bytes_(arguments.count * size_of(arguments.type)) {
  const Rank power = std::bit_floor(a_.ranks);
  pairs_ = a_.ranks - power;
  stages_ = static_cast<std::uint32_t>(std::countr_zero(power));
  steps_ = stages_ + (pairs_ > 0 ? 2 : 0);
  if (a_.rank < 2 * pairs_) role_ = a_.rank % 2 == 0 ? Role::sits_out : Role::stands_for_two;
}

void DoublingPlan::begin(std::byte* scratch) noexcept {
  scratch_ = scratch;
  std::memcpy(slot(0), a_.in, bytes_);
}

std::uint64_t DoublingPlan::sends() const noexcept {
  if (role_ == Role::sits_out) return 1;
  return stages_ + (role_ == Role::stands_for_two ? 1 : 0);
}

std::uint64_t DoublingPlan::receives() const noexcept { return sends(); }

std::byte* DoublingPlan::slot(std::uint64_t index) const noexcept {
  return scratch_ + index * bytes_;
}

std::uint32_t DoublingPlan::step_of_receive(std::uint64_t index) const noexcept {
  const auto at = static_cast<std::uint32_t>(index);
  switch (role_) {
    case Role::sits_out: return steps_ - 1;
    case Role::stands_for_two: return at;
    case Role::alone: break;
  }
  return at + (pairs_ > 0 ? 1 : 0);
}

std::uint32_t DoublingPlan::step_of_send(std::uint64_t index) const noexcept {
  if (role_ == Role::sits_out) return 0;
  return static_cast<std::uint32_t>(index) + (pairs_ > 0 ? 1 : 0);
}

Rank DoublingPlan::partner(std::uint32_t stage) const noexcept {
  const Rank number = role_ == Role::alone ? a_.rank - pairs_ : a_.rank / 2;
  const Rank other = number ^ (Rank{1} << stage);
  return other < pairs_ ? 2 * other + 1 : other + pairs_;
}

Rank DoublingPlan::peer_at(std::uint32_t step) const noexcept {
  if (pairs_ == 0) return partner(step);
  if (step == 0 || step == steps_ - 1) return a_.rank ^ 1;
  return partner(step - 1);
}

void DoublingPlan::fill(Transfer& transfer, std::uint32_t step) const noexcept {
  transfer.peer = peer_at(step);
  transfer.bytes = bytes_;
  transfer.number = step;
  transfer.hint = {.group = step,
                   .members = 1,
                   .step = saturate16(step),
                   .steps = saturate16(steps_),
                   .collective = Collective::all_reduce};
}

Outgoing DoublingPlan::send(std::uint64_t index) const noexcept {
  Outgoing outgoing;
  fill(outgoing, step_of_send(index));
  // Slot i combines i receives. A rank that stands for two sends nothing before it has its
  // neighbour's data.
  const std::uint64_t combined = index + (role_ == Role::stands_for_two ? 1 : 0);
  outgoing.data = slot(combined);
  if (combined > 0) outgoing.after_receive = combined - 1;
  return outgoing;
}

Incoming DoublingPlan::receive(std::uint64_t index) const noexcept {
  Incoming incoming;
  fill(incoming, step_of_receive(index));
  incoming.data = slot(index + 1);
  if (index > 0) incoming.process_after_receive = index - 1;
  return incoming;
}

std::uint64_t DoublingPlan::process(std::uint64_t index) noexcept {
  std::byte* mine = slot(index);
  std::byte* received = slot(index + 1);
  if (role_ != Role::sits_out) {
    const bool first = a_.rank < peer_at(step_of_receive(index));
    reduce(a_.type, a_.reduction, received, first ? mine : received, first ? received : mine,
           a_.count);
    // The last sum is sent on where this rank stands for two, so it is finished before.
    if (index + 1 == receives()) finish(a_.type, a_.reduction, received, a_.count, a_.ranks);
  }
  if (index + 1 == receives()) std::memcpy(a_.out, received, bytes_);
  return bytes_;
}

}  // namespace hawser::coll
