// SPDX-License-Identifier: Apache-2.0
// How an outgoing message ends: it is finished with its final status, released when no NIC reads
// its bytes any more, and then completed and forgotten. send.cpp has its life before.
#include <algorithm>
#include <array>

#include "proto/message/outgoing.hpp"
#include "proto/peer/peer_lists.hpp"
#include "proto/peer/peer_table.hpp"
#include "proto/service/packet_sender.hpp"
#include "proto/service/reporter.hpp"

namespace hawser::proto {

// The caller moves the floor when it has finished all that it has to.
void Outgoing::finish_send(OutgoingMessage& message, Status status) {
  HAWSER_ASSERT(!message.finished);
  Peer& peer = peers_.at(message.peer);
  const std::uint32_t index = messages_.index_of(message);
  message.finished = true;
  message.result = status;
  if (peer.sends.to_send.contains(messages_, index)) peer.sends.to_send.remove(messages_, index);
  timers_.remove(index);
  message.ask_timer.stop();
  if (message.queued > 0) drop_retransmits(peer.sends, message);
  peer.sends.table.erase(message.number);
  if (message.kind == SendKind::message && (status == Status::ok || status == Status::truncated))
    ++turn_.counters.messages_sent;
  turn_.progress();
  if (status != Status::ok && awaits_reply(message))
    leave_fetches(peer, one_sided_.at(message.one_sided));  // none will come
  const bool replied = !awaits_reply(message);
  if (replied) --peer.open_sends;
  if (message.unreaped == 0) {
    if (replied) release_send(peer, message);
    return;
  }
  ++unreleased_;
  // A NIC still holds its buffer. Success can wait for that, so that one completion says both. A
  // failure is reported now, and the release of the buffer later.
  if (ends_session(status)) complete_send(message, false);
}

// The message is finished, and no NIC reads from it, or its reply has come: whichever is last.
void Outgoing::end_hold(OutgoingMessage& message) {
  if (message.unreaped > 0) return;
  if (!awaits_reply(message)) release_send(peers_.at(message.peer), message);
}

inline void Outgoing::release_send(Peer& peer, OutgoingMessage& message) {
  complete_send(message, true);
  HAWSER_ASSERT(peer.messages > 0);
  --peer.messages;
  touched_.add(peer);
  if (message.one_sided != kNoIndex) return release_one_sided(peer, message);
  if (message.gathered) joints_.give(*message.pieces);
  messages_.free(messages_.index_of(message));
}

// Its place in the order goes to the next one, and its signal follows it.
void Outgoing::release_one_sided(Peer& peer, OutgoingMessage& message) {
  const std::uint32_t then = one_sided_.at(message.one_sided).then;
  const Status result = message.result;
  const bool has_left = std::max(message.next_fragment, message.sent_before) > 0;
  const bool is_reply = message.kind == SendKind::reply;
  leave_order(peer, message);
  free_one_sided(message);
  messages_.free(messages_.index_of(message));
  if (is_reply) {
    messages_.withhold(1);
    one_sided_.withhold(1);
  }
  if (then != kNoIndex) follow(then, result, has_left);
}

inline void Outgoing::complete_send(const OutgoingMessage& message, bool released) {
  if (turn_.tracing()) {
    reporter_.trace_send(TraceKind::send_completed, message,
                         static_cast<std::uint8_t>(message.result), released ? 1 : 0);
  }
  if (message.kind == SendKind::reply) return;  // nobody here asked for it
  if (message.kind != SendKind::message) return complete_one_sided(message, released);
  Completion completion;
  completion.operation = message.operation;
  completion.user_data = message.options.user_data;
  completion.kind = OperationKind::send;
  completion.status = message.result;
  completion.channel = message.channel;
  completion.peer = peers_.id_of(message.peer);
  completion.tag = message.tag;
  completion.bytes = message.bytes;
  completion.message_bytes = message.bytes;
  completion.immediate = message.options.immediate;
  completion.released = released;
  // A receiver can have the whole message only if all of it was sent.
  completion.outcome_unknown =
      ends_session(message.result) &&
      std::max(message.next_fragment, message.sent_before) >= message.fragments;
  turn_.complete(completion);
}

void Outgoing::reap(std::span<LocalNic> nics) {
  std::array<std::uint64_t, 64> cookies;
  for (LocalNic& local : nics) {
    for (std::size_t n = cookies.size(); n == cookies.size();) {
      n = local.nic->reap(cookies);
      for (std::size_t i = 0; i < n; ++i) {
        OutgoingMessage& message = messages_.at(static_cast<std::uint32_t>(cookies[i]));
        HAWSER_ASSERT(message.unreaped > 0);
        if (--message.unreaped == 0) let_go(message);
      }
    }
  }
}

// No NIC reads from the message any more.
void Outgoing::let_go(OutgoingMessage& message) {
  if (message.kind == SendKind::reply) end_withdrawn_reading(message);
  if (!message.finished) return;
  --unreleased_;
  end_hold(message);
}

}  // namespace hawser::proto
