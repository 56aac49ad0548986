// SPDX-License-Identifier: Apache-2.0
#include "coll/execution.hpp"

#include <algorithm>
#include <string>
#include <utility>

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
    case CollectiveKind::check: return "check of bandwidths";
  }
  return "collective";
}

}  // namespace

bool StreamStates::Lane::is_done(std::uint64_t place) const noexcept {
  if (place < base) return true;
  return place < base + kMaxWindow && (done & std::uint64_t{1} << (place & (kMaxWindow - 1))) != 0;
}

void StreamStates::Lane::finish(std::uint64_t place) noexcept {
  const auto bit = [](std::uint64_t at) { return std::uint64_t{1} << (at & (kMaxWindow - 1)); };
  done |= bit(place);
  while (base < total && (done & bit(base)) != 0) {
    done &= ~bit(base);
    ++base;
  }
}

std::span<StreamStates::Stream> Execution::streams() noexcept {
  if (states_ == nullptr) return {};
  return std::span(states_->streams).first(plan().streams());
}

std::span<const StreamStates::Stream> Execution::streams() const noexcept {
  if (states_ == nullptr) return {};
  return std::span(std::as_const(states_->streams)).first(plan().streams());
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
  replace(plan_to_run, window);
  states_ = nullptr;
  worth_a_look_ = false;
}

void Execution::replace(const AnyPlan& plan_to_run, std::uint32_t window) {
  plan_.emplace(plan_to_run);
  window_ = window;
}

void Execution::begin(std::byte* scratch, StreamStates& states, std::uint32_t first_group) {
  first_group_ = first_group;
  plan().begin(scratch);
  states_ = &states;
  for (std::uint32_t number = 0; number < plan().streams(); ++number) {
    Stream& stream = states.streams[number];
    stream.sends = {.total = plan().sends_of(number)};
    stream.receives = {.total = plan().receives_of(number)};
    stream.arrived = 0;
  }
  worth_a_look_ = true;
}

bool Execution::has_received(std::uint64_t index) const noexcept {
  return index == kNothing || streams()[stream_of(index)].receives.is_done(place_of(index));
}

bool Execution::has_sent(std::uint64_t index) const noexcept {
  return index == kNothing || streams()[stream_of(index)].sends.is_done(place_of(index));
}

bool Execution::ready(const Transfer& transfer) const noexcept {
  return has_received(transfer.after_receive) && has_sent(transfer.after_send);
}

bool Execution::sends_issued() const noexcept {
  return std::ranges::all_of(streams(), [](const Stream& stream) {
    const Lane& sends = stream.sends;
    for (std::uint64_t i = sends.base; i < sends.total; ++i) {
      if (i >= sends.base + kMaxWindow || ((sends.posted | sends.done) & bit(i)) == 0) return false;
    }
    return true;
  });
}

bool Execution::sends_done() const noexcept {
  return states_ != nullptr && std::ranges::all_of(streams(), [](const Stream& stream) {
           return stream.sends.base == stream.sends.total;
         });
}

bool Execution::finished() const noexcept {
  const bool has_all = states_ != nullptr && std::ranges::all_of(streams(), [](const Stream& one) {
                         return one.receives.base == one.receives.total;
                       });
  return has_all && (plan().sends_scratch() ? sends_issued() : sends_done());
}

Hint Execution::hint(const Transfer& transfer) const noexcept {
  Hint hint = transfer.hint;
  if (hint.members == 0) return hint;
  hint.group += first_group_;
  if (hint.group == 0) hint.group = ~0u;  // 0 would mean that there is no group
  return hint;
}

Mark Execution::mark(Mark::Kind kind, std::uint32_t stream, std::uint64_t place) const noexcept {
  return {.kind = kind,
          .slot = identity_.slot,
          .index = stream * kMaxWindow + static_cast<std::uint32_t>(place & (kMaxWindow - 1))};
}

std::optional<Execution::Awaited> Execution::awaited() const noexcept {
  for (std::uint32_t number = 0; number < streams().size(); ++number) {
    const Lane& receives = streams()[number].receives;
    const std::uint64_t end = std::min(receives.total, receives.base + window_);
    for (std::uint64_t i = receives.base; i < end; ++i) {
      const std::uint64_t index = in_stream(number, i);
      if ((receives.posted & bit(i)) != 0) return Awaited{plan().receive(index).peer, index};
    }
  }
  return std::nullopt;
}

Failure Execution::failure(const Channel& channel, const char* what, Rank other,
                           Status status) const {
  Failure failure{.rank = other,
                  .status = status,
                  .text = std::string(name_of(identity_.kind)) + " " +
                          std::to_string(identity_.sequence) + ": " + what + " rank " +
                          std::to_string(other) + ": " + std::string(to_string(status))};
  if (status == Status::endpoint_closed && channel.is_closed()) {
    // This status of an own operation is about the own endpoint, and not about the other rank's.
    failure.rank = identity_.rank;
    failure.text += " at rank " + std::to_string(identity_.rank);
  }
  return failure;
}

std::optional<Failure> Execution::advance(const Channel& channel, TurnBudget& budget) {
  if (!worth_a_look_) return std::nullopt;
  worth_a_look_ = false;
  // Entries that finish without an operation (processed, skipped) make others ready at once, in any
  // stream.
  for (bool changed = true; changed;) {
    changed = false;
    for (std::uint32_t number = 0; number < streams().size(); ++number) {
      process_arrived(number, budget, changed);
      if (auto failed = post_receives(channel, number, budget, changed)) return failed;
      if (auto failed = post_sends(channel, number, budget, changed)) return failed;
    }
  }
  return std::nullopt;
}

void Execution::process_arrived(std::uint32_t number, TurnBudget& budget, bool& changed) {
  Stream& stream = streams()[number];
  if (stream.arrived == 0) return;
  Lane& receives = stream.receives;
  const std::uint64_t end = std::min(receives.total, receives.base + window_);
  for (std::uint64_t i = receives.base; i < end; ++i) {
    if ((stream.arrived & bit(i)) == 0) continue;
    const std::uint64_t index = in_stream(number, i);
    const Incoming incoming = plan().receive(index);
    if (!has_received(incoming.process_after_receive) || !has_sent(incoming.process_after_send)) {
      continue;
    }
    if (budget.process_bytes == 0) {
      worth_a_look_ = true;
      return;
    }
    budget.process_bytes -= std::min(budget.process_bytes, plan().process(index));
    stream.arrived &= ~bit(i);
    receives.finish(i);
    changed = true;
  }
}

std::optional<Failure> Execution::post_receives(const Channel& channel, std::uint32_t number,
                                                TurnBudget& budget, bool& changed) {
  Stream& stream = streams()[number];
  Lane& receives = stream.receives;
  // The end of the window moves as skipped entries finish.
  for (std::uint64_t i = receives.base; i < std::min(receives.total, receives.base + window_);
       ++i) {
    if (receives.is_done(i) || ((receives.posted | stream.arrived) & bit(i)) != 0) continue;
    const Incoming incoming = plan().receive(in_stream(number, i));
    if (!ready(incoming)) continue;
    if (incoming.skip) {
      receives.finish(i);
      changed = true;
      continue;
    }
    if (!budget.may_receive) {
      worth_a_look_ = true;
      return std::nullopt;
    }
    const Status status = post(channel, incoming, number, i);
    if (status == Status::again) {
      budget.may_receive = false;
      worth_a_look_ = true;
      return std::nullopt;
    }
    if (status != Status::ok) return failure(channel, "receive from", incoming.peer, status);
  }
  return std::nullopt;
}

std::optional<Failure> Execution::post_sends(const Channel& channel, std::uint32_t number,
                                             TurnBudget& budget, bool& changed) {
  Lane& sends = streams()[number].sends;
  for (std::uint64_t i = sends.base; i < std::min(sends.total, sends.base + window_); ++i) {
    if (sends.is_done(i) || (sends.posted & bit(i)) != 0) continue;
    const Outgoing outgoing = plan().send(in_stream(number, i));
    if (!ready(outgoing)) continue;
    if (outgoing.skip) {
      sends.finish(i);
      changed = true;
      continue;
    }
    if (!budget.may_send) {
      worth_a_look_ = true;
      return std::nullopt;
    }
    const Status status = post(channel, outgoing, number, i);
    if (status == Status::again) {
      budget.may_send = false;
      worth_a_look_ = true;
      return std::nullopt;
    }
    if (status != Status::ok) return failure(channel, "send to", outgoing.peer, status);
  }
  return std::nullopt;
}

Status Execution::post(const Channel& channel, const Outgoing& outgoing, std::uint32_t stream,
                       std::uint64_t place) {
  OperationId operation = kNoOperation;
  const Status status = channel.router.send(
      {.peer = channel.peers[outgoing.peer],
       .channel = channel.number(),
       .tag = data_tag(channel.id, identity_.sequence, outgoing.number),
       .data = outgoing.data,
       .bytes = outgoing.bytes,
       .level = Level::accepted,
       .immediate = identity_.signature,
       .user_data = channel.route | mark(Mark::Kind::send, stream, place).pack(),
       .hint = hint(outgoing),
       .owner = ChannelOwner::collectives},
      operation);
  if (status != Status::ok) return status;
  Stream& of = streams()[stream];
  of.sends.posted |= bit(place);
  of.send_operations[place & (kMaxWindow - 1)] = operation;
  ++in_flight_;
  return status;
}

Status Execution::post(const Channel& channel, const Incoming& incoming, std::uint32_t stream,
                       std::uint64_t place) {
  OperationId operation = kNoOperation;
  const Status status = channel.endpoint().receive(
      {.peer = channel.peers[incoming.peer],
       .channel = channel.number(),
       .tag = data_tag(channel.id, identity_.sequence, incoming.number),
       .data = incoming.data,
       .bytes = incoming.bytes,
       .user_data = channel.route | mark(Mark::Kind::receive, stream, place).pack(),
       .hint = hint(incoming),
       .owner = ChannelOwner::collectives},
      operation);
  if (status != Status::ok) return status;
  Stream& of = streams()[stream];
  of.receives.posted |= bit(place);
  of.receive_operations[place & (kMaxWindow - 1)] = operation;
  ++in_flight_;
  return status;
}

// Checks the arrival against what this rank expects. If they differ, the ranks have started
// different collectives.
std::optional<Failure> Execution::check(const Channel& channel, const Incoming& expected,
                                        const Completion& completion) const {
  if (completion.status != Status::ok && completion.status != Status::truncated) {
    return failure(channel, "receive from", expected.peer, completion.status);
  }
  if (completion.immediate != identity_.signature) {
    return failure(channel, kDisagreement, expected.peer, Status::invalid_argument);
  }
  if (completion.message_bytes != expected.bytes) {
    return failure(channel, "a different length at", expected.peer, Status::invalid_argument);
  }
  return std::nullopt;
}

std::optional<Failure> Execution::on_completion(const Channel& channel, const Mark& mark,
                                                const Completion& completion) {
  worth_a_look_ = true;
  const std::uint32_t number = mark.index / kMaxWindow;
  const std::uint32_t place = mark.index % kMaxWindow;
  const std::uint64_t flag = bit(place);
  if (completion.released) --in_flight_;
  Stream& stream = streams()[number];
  if (mark.kind == Mark::Kind::send) {
    if ((stream.sends.posted & flag) == 0) return std::nullopt;  // releases one that failed before
    const std::uint64_t at = stream.sends.place_at(place);
    stream.sends.posted &= ~flag;
    if (completion.status != Status::ok) {
      return failure(channel, "send to", plan().send(in_stream(number, at)).peer,
                     completion.status);
    }
    stream.sends.finish(at);
    return std::nullopt;
  }
  if ((stream.receives.posted & flag) == 0) return std::nullopt;
  stream.receives.posted &= ~flag;
  const std::uint64_t index = in_stream(number, stream.receives.place_at(place));
  if (auto failed = check(channel, plan().receive(index), completion)) return failed;
  stream.arrived |= flag;
  return std::nullopt;
}

// Returns false if the endpoint takes no more now.
bool Execution::cancel(const Channel& channel, Lane& lane,
                       const StreamStates::Operations& operations) {
  for (std::uint32_t i = 0; i < kMaxWindow; ++i) {
    if ((lane.posted & ~lane.cancel_asked & bit(i)) == 0) continue;
    if (channel.endpoint().cancel(operations[i]) == Status::again) return false;
    lane.cancel_asked |= bit(i);
  }
  return true;
}

void Execution::cancel_operations(const Channel& channel) {
  for (Stream& stream : streams()) {
    if (!cancel(channel, stream.receives, stream.receive_operations)) return;
    if (!cancel(channel, stream.sends, stream.send_operations)) return;
  }
}

}  // namespace hawser::coll
