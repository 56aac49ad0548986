// SPDX-License-Identifier: Apache-2.0
#include "coll/execution.hpp"

#include <algorithm>
#include <string>

namespace hawser::coll {
namespace {

const char* name_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce: return "all_reduce";
    case CollectiveKind::reduce: return "reduce";
    case CollectiveKind::reduce_scatter: return "reduce_scatter";
    case CollectiveKind::all_gather: return "all_gather";
    case CollectiveKind::all_to_all: return "all_to_all";
    case CollectiveKind::broadcast: return "broadcast";
    case CollectiveKind::gather: return "gather";
    case CollectiveKind::scatter: return "scatter";
    case CollectiveKind::barrier: return "barrier";
    case CollectiveKind::split: return "split";
  }
  return "collective";
}

}  // namespace

bool Execution::Lane::is_done(std::uint64_t index) const noexcept {
  if (index < base) return true;
  return index < base + kMaxWindow && (done & bit(index)) != 0;
}

void Execution::Lane::finish(std::uint64_t index) noexcept {
  done |= bit(index);
  while (base < total && (done & bit(base)) != 0) {
    done &= ~bit(base);
    ++base;
  }
}

const Plan& Execution::plan() const noexcept {
  return std::visit([](const auto& plan) -> const Plan& { return plan; }, *plan_);
}

Plan& Execution::plan() noexcept {
  return std::visit([](auto& plan) -> Plan& { return plan; }, *plan_);
}

void Execution::prepare(const Identity& identity, const AnyPlan& plan_to_run,
                        std::uint32_t window) {
  identity_ = identity;
  plan_.emplace(plan_to_run);
  window_ = window;
  sends_ = {.total = plan().sends()};
  receives_ = {.total = plan().receives()};
  arrived_ = 0;
  worth_a_look_ = false;
}

void Execution::begin(std::byte* scratch) {
  plan().begin(scratch);
  worth_a_look_ = true;
}

bool Execution::ready(const Transfer& transfer) const noexcept {
  return (transfer.after_receive == kNothing || receives_.is_done(transfer.after_receive)) &&
         (transfer.after_send == kNothing || sends_.is_done(transfer.after_send));
}

bool Execution::sends_issued() const noexcept {
  for (std::uint64_t i = sends_.base; i < sends_.total; ++i) {
    if (i >= sends_.base + kMaxWindow || ((sends_.posted | sends_.done) & bit(i)) == 0)
      return false;
  }
  return true;
}

bool Execution::finished() const noexcept {
  if (receives_.base != receives_.total) return false;
  return plan().sends_scratch() ? sends_issued() : sends_done();
}

Hint Execution::hint(const Transfer& transfer) const noexcept {
  Hint hint = transfer.hint;
  if (hint.members == 0) return hint;
  hint.group += identity_.first_group;
  if (hint.group == 0) hint.group = ~0u;  // 0 would mean that there is no group
  return hint;
}

Mark Execution::mark(Mark::Kind kind, std::uint64_t index) const noexcept {
  return {.kind = kind,
          .slot = identity_.slot,
          .index = static_cast<std::uint32_t>(index & (kMaxWindow - 1))};
}

std::optional<Execution::Awaited> Execution::awaited() const noexcept {
  const std::uint64_t end = std::min(receives_.total, receives_.base + window_);
  for (std::uint64_t i = receives_.base; i < end; ++i) {
    if ((receives_.posted & bit(i)) != 0) return Awaited{plan().receive(i).peer, i};
  }
  return std::nullopt;
}

Failure Execution::failure(const char* what, Rank other, Status status) const {
  Failure failure{.rank = other,
                  .status = status,
                  .text = std::string(name_of(identity_.kind)) + " " +
                          std::to_string(identity_.sequence) + ": " + what + " rank " +
                          std::to_string(other) + ": " + std::string(to_string(status))};
  if (status == Status::endpoint_closed) {
    // This status of an own operation is about the own endpoint, and not about the other rank's.
    failure.rank = identity_.rank;
    failure.text += " at rank " + std::to_string(identity_.rank);
  }
  return failure;
}

std::optional<Failure> Execution::advance(const Channel& channel, TurnBudget& budget) {
  if (!worth_a_look_) return std::nullopt;
  worth_a_look_ = false;
  // Entries that finish without an operation (processed, skipped) make others ready at once.
  for (bool changed = true; changed;) {
    changed = false;
    process_arrived(budget, changed);
    if (auto failed = post_receives(channel, budget, changed)) return failed;
    if (auto failed = post_sends(channel, budget, changed)) return failed;
  }
  return std::nullopt;
}

void Execution::process_arrived(TurnBudget& budget, bool& changed) {
  if (arrived_ == 0) return;
  const std::uint64_t end = std::min(receives_.total, receives_.base + window_);
  for (std::uint64_t i = receives_.base; i < end; ++i) {
    if ((arrived_ & bit(i)) == 0) continue;
    const Incoming incoming = plan().receive(i);
    if (incoming.process_after_receive != kNothing &&
        !receives_.is_done(incoming.process_after_receive)) {
      continue;
    }
    if (incoming.process_after_send != kNothing && !sends_.is_done(incoming.process_after_send)) {
      continue;
    }
    if (budget.process_bytes == 0) {
      worth_a_look_ = true;
      return;
    }
    budget.process_bytes -= std::min(budget.process_bytes, plan().process(i));
    arrived_ &= ~bit(i);
    receives_.finish(i);
    changed = true;
  }
}

std::optional<Failure> Execution::post_receives(const Channel& channel, TurnBudget& budget,
                                                bool& changed) {
  // The end of the window moves as skipped entries finish.
  for (std::uint64_t i = receives_.base; i < std::min(receives_.total, receives_.base + window_);
       ++i) {
    if (receives_.is_done(i) || ((receives_.posted | arrived_) & bit(i)) != 0) continue;
    const Incoming incoming = plan().receive(i);
    if (!ready(incoming)) continue;
    if (incoming.skip) {
      receives_.finish(i);
      changed = true;
      continue;
    }
    if (!budget.may_receive) {
      worth_a_look_ = true;
      return std::nullopt;
    }
    const Status status = post(channel, incoming, i);
    if (status == Status::again) {
      budget.may_receive = false;
      worth_a_look_ = true;
      return std::nullopt;
    }
    if (status != Status::ok) return failure("receive from", incoming.peer, status);
  }
  return std::nullopt;
}

std::optional<Failure> Execution::post_sends(const Channel& channel, TurnBudget& budget,
                                             bool& changed) {
  for (std::uint64_t i = sends_.base; i < std::min(sends_.total, sends_.base + window_); ++i) {
    if (sends_.is_done(i) || (sends_.posted & bit(i)) != 0) continue;
    const Outgoing outgoing = plan().send(i);
    if (!ready(outgoing)) continue;
    if (outgoing.skip) {
      sends_.finish(i);
      changed = true;
      continue;
    }
    if (!budget.may_send) {
      worth_a_look_ = true;
      return std::nullopt;
    }
    const Status status = post(channel, outgoing, i);
    if (status == Status::again) {
      budget.may_send = false;
      worth_a_look_ = true;
      return std::nullopt;
    }
    if (status != Status::ok) return failure("send to", outgoing.peer, status);
  }
  return std::nullopt;
}

Status Execution::post(const Channel& channel, const Outgoing& outgoing, std::uint64_t index) {
  OperationId operation = kNoOperation;
  const Status status =
      channel.router.send({.peer = channel.peers[outgoing.peer],
                           .channel = channel.number(),
                           .tag = data_tag(channel.id, identity_.sequence, outgoing.number),
                           .data = outgoing.data,
                           .bytes = outgoing.bytes,
                           .level = Level::accepted,
                           .immediate = identity_.signature,
                           .user_data = channel.route | mark(Mark::Kind::send, index).pack(),
                           .hint = hint(outgoing),
                           .owner = ChannelOwner::collectives},
                          operation);
  if (status != Status::ok) return status;
  sends_.posted |= bit(index);
  send_operations_[index & (kMaxWindow - 1)] = operation;
  ++sends_.in_flight;
  return status;
}

Status Execution::post(const Channel& channel, const Incoming& incoming, std::uint64_t index) {
  OperationId operation = kNoOperation;
  const Status status = channel.endpoint().receive(
      {.peer = channel.peers[incoming.peer],
       .channel = channel.number(),
       .tag = data_tag(channel.id, identity_.sequence, incoming.number),
       .data = incoming.data,
       .bytes = incoming.bytes,
       .user_data = channel.route | mark(Mark::Kind::receive, index).pack(),
       .hint = hint(incoming),
       .owner = ChannelOwner::collectives},
      operation);
  if (status != Status::ok) return status;
  receives_.posted |= bit(index);
  receive_operations_[index & (kMaxWindow - 1)] = operation;
  ++receives_.in_flight;
  return status;
}

// Checks the arrival against what this rank expects. If they differ, the ranks have started
// different collectives.
std::optional<Failure> Execution::check(const Incoming& expected,
                                        const Completion& completion) const {
  if (completion.status != Status::ok && completion.status != Status::truncated) {
    return failure("receive from", expected.peer, completion.status);
  }
  if (completion.immediate != identity_.signature) {
    return failure(kDisagreement, expected.peer, Status::invalid_argument);
  }
  if (completion.message_bytes != expected.bytes) {
    return failure("a different length at", expected.peer, Status::invalid_argument);
  }
  return std::nullopt;
}

std::optional<Failure> Execution::on_completion(const Mark& mark, const Completion& completion) {
  worth_a_look_ = true;
  const std::uint64_t flag = bit(mark.index);
  if (mark.kind == Mark::Kind::send) {
    if (completion.released) --sends_.in_flight;
    if ((sends_.posted & flag) == 0) return std::nullopt;  // releases a send that failed before
    const std::uint64_t index = sends_.index_of(mark.index);
    sends_.posted &= ~flag;
    if (completion.status != Status::ok) {
      return failure("send to", plan().send(index).peer, completion.status);
    }
    sends_.finish(index);
    return std::nullopt;
  }
  if (completion.released) --receives_.in_flight;
  if ((receives_.posted & flag) == 0) return std::nullopt;
  receives_.posted &= ~flag;
  if (auto failed = check(plan().receive(receives_.index_of(mark.index)), completion)) {
    return failed;
  }
  arrived_ |= flag;
  return std::nullopt;
}

void Execution::cancel(const Channel& channel, Lane& lane, const Operations& operations) {
  for (std::uint32_t i = 0; i < kMaxWindow; ++i) {
    if ((lane.posted & ~lane.cancel_asked & bit(i)) == 0) continue;
    if (channel.endpoint().cancel(operations[i]) == Status::again) return;
    lane.cancel_asked |= bit(i);
  }
}

void Execution::cancel_operations(const Channel& channel) {
  cancel(channel, receives_, receive_operations_);
  cancel(channel, sends_, send_operations_);
}

}  // namespace hawser::coll
