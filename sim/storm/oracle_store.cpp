// SPDX-License-Identifier: Apache-2.0
// The judge's rules about a full store: which receives may hear of it, and which messages may be
// late because of it.
//
// The endpoint alone knows which descriptors are taken. The judge knows what senders posted, what
// receives got, and what senders were told, so its rules are bounds.
#include <algorithm>

#include "sim/storm/oracle.hpp"

namespace hawser::sim {

namespace {

// A message is turned away where max_receive_messages others lie, the reserve of its sender is
// taken by one more, and the message itself makes one more.
constexpr std::uint64_t kBesideTheLimit = 2;

}  // namespace

// The message may lie at its receiver without a receive. An end at the receiver before the sender
// hears of it may be that of an earlier session or process: the message then goes to the next one.
// After that, the end of the receiver's session removes the message unless it is whole. The end of
// the receiver's process always removes it.
bool Oracle::may_take_descriptor(std::uint32_t index) const {
  const SendRecord& send = sends_[index];
  const MessagePlan& message = plan_.messages[index];
  if (!send.posted || send.received > 0) return false;
  if (!send.completion) return true;
  const Completion& completion = *send.completion;
  if (completion.status == Status::cancelled || gone_[message.to] >= send.done) return false;
  const bool is_whole = completion.status == Status::ok || completion.outcome_unknown;
  return is_whole || sessions_.ended(message.to, message.from) < send.done;
}

bool Oracle::is_wanted(std::uint32_t index) const {
  return std::ranges::any_of(receives_, [&](const ReceiveRecord& receive) {
    return receive.posted && !receive.gone && !receive.completion &&
           matches(receive, plan_.messages[index]);
  });
}

// The receive waited for peer_timeout, by its host's clock (which its endpoint may read half a turn
// late). Messages at the host take all descriptors. Besides, a message that the receive may wait
// for was turned away.
bool Oracle::store_was_full(const ReceiveRecord& receive, proto::Time clock) const {
  const proto::Duration turn = plan_.hosts[receive.plan.host].turn;
  const auto patience = proto::milliseconds(plan_.tunables.peer_timeout_ms);
  if (clock + turn < receive.clock + patience) return false;
  std::uint64_t lie_there = 0;
  bool may_wait = false;
  for (std::uint32_t i = 0; i < sends_.size(); ++i) {
    if (plan_.messages[i].to != receive.plan.host || !may_take_descriptor(i)) continue;
    ++lie_there;
    may_wait |= receive.plan.from == kAnyHost || receive.plan.from == plan_.messages[i].from;
  }
  return may_wait && lie_there > plan_.tunables.max_receive_messages;
}

// The receiver processes the messages of a session in their order. If the lowest of them is turned
// away, all younger ones wait, whatever receives are posted for them. The lowest message is never
// turned away if a receive waits for it.
bool Oracle::waits_behind_full_store(std::uint32_t index) const {
  const SendRecord& young = sends_[index];
  const MessagePlan& message = plan_.messages[index];
  std::uint64_t lie_there = 0;
  std::uint64_t stand_before = 0;
  for (std::uint32_t i = 0; i < sends_.size(); ++i) {
    const SendRecord& send = sends_[i];
    if (plan_.messages[i].to != message.to || !may_take_descriptor(i)) continue;
    const bool is_of_session = plan_.messages[i].from == message.from && send.life == young.life &&
                               send.session == young.session;
    if (is_of_session && send.order >= young.order) continue;
    ++lie_there;
    stand_before += is_of_session && !is_wanted(i);
  }
  return stand_before >= kBesideTheLimit &&
         lie_there >= plan_.tunables.max_receive_messages + kBesideTheLimit;
}

// A receiver takes back a message before its sender hears of that.
bool Oracle::any_cancel_is_under_way(std::uint32_t host) const {
  for (std::uint32_t i = 0; i < sends_.size(); ++i) {
    const SendRecord& send = sends_[i];
    if (plan_.messages[i].to != host || !send.cancel_asked || send.completion) continue;
    if (may_take_descriptor(i)) return true;
  }
  return false;
}

// Called before the judge records an event that may free descriptors: the cancelling of a message,
// the end of a session of the host, or a new receive. A receive frees the descriptor of the message
// that it gets, and lends its own to a message that was turned away. For messages that a full store
// held up until now, the wait begins again.
void Oracle::note_freed_descriptors(std::uint32_t host, proto::Duration at) {
  std::uint64_t lie_there = 0;
  for (std::uint32_t i = 0; i < sends_.size(); ++i) {
    lie_there += plan_.messages[i].to == host && may_take_descriptor(i);
  }
  // Most stores are never full.
  if (lie_there < plan_.tunables.max_receive_messages + kBesideTheLimit) return;
  for (std::uint32_t i = 0; i < sends_.size(); ++i) {
    SendRecord& send = sends_[i];
    if (plan_.messages[i].to != host || !send.posted || send.received > 0) continue;
    if (waits_behind_full_store(i)) send.held_up_until = at;
  }
}

}  // namespace hawser::sim
