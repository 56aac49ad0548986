// SPDX-License-Identifier: Apache-2.0
// Outgoing owns the messages that this end sends to all peers. It decides how much of each may be
// sent, what its statuses, grants and requests mean, when it asks for its status, and when it is
// over (docs/internals/protocol.md §8 and §9).
//
//   send.cpp       the life of a message, and what the peer says of it
//   send_end.cpp   its end: finished, released, completed
//   packed.cpp     several small messages in one packet
//   envelope.cpp   how a message asks for its status
//   one_sided_out.cpp   operations on the memory of peers, and replies to theirs
//
// Whoever sends packets picks fragments here, and gives back what no NIC took. PathSet tells what
// became of a packet that a NIC has taken.
//
// Timer of a message: `ask_timer`. `expire` fires what is due, and `next_timer` is the earliest.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "hawser/types.hpp"
#include "proto/base/assert.hpp"
#include "proto/base/deadline_heap.hpp"
#include "proto/base/sequence.hpp"
#include "proto/base/slab.hpp"
#include "proto/base/turn.hpp"
#include "proto/message/joints.hpp"
#include "proto/message/one_sided_send.hpp"
#include "proto/message/outgoing_message.hpp"
#include "proto/message/peer_messages.hpp"
#include "proto/message/pick.hpp"
#include "proto/path/local_nic.hpp"
#include "proto/path/path_set.hpp"
#include "proto/region/regions.hpp"
#include "proto/wire/packet.hpp"

namespace hawser::proto {

class ControlRoutes;
class PacketSender;
class PeerTable;
class Reporter;
class Senders;
class TouchedPeers;
struct Peer;
struct SendRequest;

[[nodiscard]] wire::EnvelopePart envelope_of(const OutgoingMessage& message);

class Outgoing final : public PacketOwner, public OneSidedSender {
 public:
  // The sends work with these. All of them outlive them.
  struct Parts {
    Turn& turn;
    PeerTable& peers;
    PacketSender& sender;
    Reporter& reporter;
    Senders& senders;
    TouchedPeers& touched;
    ControlRoutes& routes;
    PathSet& paths;
    Regions& regions;
  };
  // How many there may be to all peers.
  struct Limits {
    std::uint32_t messages = 0;  // the caller's: sends and one-sided operations
    std::uint32_t replies = 0;
    std::uint32_t retransmits = 0;
    std::uint32_t joints = Joints::kLeast;
  };
  Outgoing(const Parts& parts, const Limits& limits);

  // ---- messages
  [[nodiscard]] OutgoingMessage& at(std::uint32_t index) { return messages_.at(index); }
  [[nodiscard]] const OutgoingMessage& at(std::uint32_t index) const { return messages_.at(index); }
  [[nodiscard]] OutgoingMessage& operator[](std::uint32_t index) { return messages_.at(index); }
  [[nodiscard]] const OutgoingMessage& operator[](std::uint32_t index) const {
    return messages_.at(index);
  }
  [[nodiscard]] std::uint32_t index_of(const OutgoingMessage& message) const {
    return messages_.index_of(message);
  }
  [[nodiscard]] SlabId id_at(std::uint32_t index) const { return messages_.id_at(index); }
  [[nodiscard]] const Slab<OutgoingMessage>& all() const { return messages_; }
  // Finished sends that a NIC may still read from.
  [[nodiscard]] std::uint32_t unreleased() const { return unreleased_; }
  // To peers' reads and fetching atomics, not released yet.
  [[nodiscard]] std::uint32_t replies() const { return replies_; }
  // How much of a message this end may send without a grant.
  [[nodiscard]] std::uint64_t unscheduled_bytes() const { return unscheduled_bytes_; }

  // ---- the life of a message
  // Gives the message of a request, which is right, the peer's next number. Sends it as soon as the
  // session is READY. Null: there is no place for it or its number, or too few joints for its list.
  [[nodiscard]] OutgoingMessage* begin(Peer& peer, const SendRequest& request);
  // The session is READY, for which messages waited.
  void begin_session(Peer& peer);
  // Ends all messages to the peer.
  void end_session(Peer& peer, Status status);
  [[nodiscard]] Status cancel(OutgoingMessage& message);

  // ---- one-sided operations, and replies to those of peers
  // A message of that kind, for the caller to fill, and what it needs beyond. It has no number yet.
  // Null: no place.
  [[nodiscard]] OneSidedSend* make_one_sided(Peer& peer, SendKind kind, OutgoingMessage*& message);
  // Takes back what was made a moment ago.
  void unmake(Peer& peer, OutgoingMessage& message);
  // Puts an operation that has all that its caller gave into the order of its channel, and sends it
  // as soon as it is its turn. False: too many strong ones wait, or channels are in use; nothing of
  // the operation is left.
  [[nodiscard]] bool begin_one_sided(Peer& peer, OutgoingMessage& message, bool strong);
  // The signal of the write goes by itself, when the write is placed. Both were made a moment ago.
  // The caller's operation is the signal's. Once the write has begun, both have.
  void let_follow(OneSidedSend& write, OneSidedSend& signal) { write.then = signal.message; }
  // The operation, which was made a moment ago, ends with a reply.
  void await_reply(Peer& peer, OneSidedSend& operation);
  [[nodiscard]] OneSidedSend* fetch_named(const Peer& peer, std::uint64_t note) override;
  void end_fetch(OneSidedSend& operation, Status status) override;
  [[nodiscard]] bool may_reply(Peer& peer) override;
  [[nodiscard]] OneSidedSend& make_reply(Peer& peer, std::uint64_t note,
                                         std::uint64_t bytes) override;
  void start_reply(Peer& peer, OneSidedSend& reply, const std::byte* from, SlabId region) override;
  // The region was withdrawn.
  void withdraw_replies(SlabId region);
  void complete_withdrawal(const Withdrawal& withdrawal);
  // A fragment's bytes. Those of several pieces may be copied to `beside`, if they are at most
  // Joints::kMostBeside.
  [[nodiscard]] std::span<const std::byte> payload(const OutgoingMessage& message,
                                                   FragmentExtent extent, std::byte* beside) {
    if (message.gathered) return joints_.gather(*message.pieces, extent, beside);
    return {message.data + extent.begin, extent.bytes};
  }
  // Writes the headers of a one-sided packet, behind the fragment header.
  void write_target(const OutgoingMessage& message, wire::PacketWriter& writer) const;
  [[nodiscard]] static wire::PacketType packet_type(const OutgoingMessage& message) {
    if (message.granted) return wire::PacketType::granted;
    switch (message.kind) {
      case SendKind::message: return wire::PacketType::data;
      case SendKind::read: return wire::PacketType::read;
      case SendKind::signal:
      case SendKind::atomic: return wire::PacketType::atomic;
      default: return wire::PacketType::write;
    }
  }

  // Takes back from NICs what they have sent.
  void reap(std::span<LocalNic> nics);

  // ---- what the peer says
  void on_status(Peer& peer, const wire::StatusView& view);
  // The same from a CLOSE, which nothing follows: each of its statuses counts.
  void on_final_status(Peer& peer, const wire::StatusView& view);
  void on_grant(Peer& peer, const wire::GrantBlock& grant);
  void on_request(Peer& peer, const wire::RequestView& request);

  // ---- picking
  // Whether the receiver has granted the bytes that are sent next.
  [[nodiscard]] bool sends_granted(const PeerSends& sends) const {
    return !sends.to_send.empty() && messages_.at(sends.to_send.front()).granted;
  }
  // Counts waiting fragments, up to `most`: retransmissions, and new ones under one window.
  [[nodiscard]] std::uint64_t waiting_fragments(const PeerSends& sends, std::uint64_t most) const;
  // Whether so many picks could be given back.
  [[nodiscard]] bool can_take_back(std::uint64_t picks) const {
    return retransmits_.available() >= picks;
  }
  // Takes the next fragment to send. Lost ones come first. False: there is none.
  [[nodiscard, gnu::always_inline]] bool pick(PeerSends& sends, Pick& pick) {
    while (!sends.retransmits.empty()) {
      const std::uint32_t entry = sends.retransmits.front();
      const Retransmit retransmit = retransmits_.at(entry);
      OutgoingMessage& message = messages_.at(retransmit.message.index);
      drop_retransmit(sends, entry);
      if (message.stopped) {
        consider_asking(message);  // perhaps nothing of it is in flight any more
        continue;
      }
      pick = {retransmit.message.index, retransmit.fragment, 0, retransmit.was_sent};
      return true;
    }
    if (sends.to_send.empty()) return false;
    const std::uint32_t index = sends.to_send.front();
    OutgoingMessage& message = messages_.at(index);
    pick = {index, message.next_fragment++, 0, false};
    if (message.next_fragment >= message.may_send) sends.to_send.remove(messages_, index);
    return true;
  }
  // Gives back, last first, fragments that no NIC took.
  void unpick(Peer& peer, const Pick& pick);
  // Takes the next fragment of a message from which all fragments are taken in a row. False: it was
  // the last that may be sent now.
  [[nodiscard]] bool pick_next_of(PeerSends& sends, std::uint32_t index, Pick& pick) {
    OutgoingMessage& message = messages_.at(index);
    pick = {index, message.next_fragment};
    if (++message.next_fragment < message.may_send) return true;
    sends.to_send.remove(messages_, index);
    return false;
  }
  // False: the message stays alone, and nothing was written. Otherwise all of them count as in
  // flight from here on; unpick takes that back.
  [[nodiscard]] bool pack_others(Peer& peer, Pick& pick, wire::PacketWriter& writer,
                                 TxPacket& packet);
  // A NIC has taken the packet of a pick.
  void picked_left(const Pick& pick, const TxPacket& packet, SentPacket& record) {
    record.message = pick.message;
    record.at_end = pick.at_end;
    if (pick.more > 0) return record_packed(pick, record);
    OutgoingMessage& message = messages_.at(pick.message);
    record.message_generation = messages_.id_at(pick.message).generation;
    record.fragment = pick.fragment;
    ++message.in_flight;
    ++message.unreaped;
    turn_.counters.data_bytes_sent += packet.payload_bytes;
  }

  // ---- PacketOwner
  void packet_arrived(Peer& peer, const SentPacket& packet) override;
  void packet_came_late(Peer& peer, const SentPacket& packet) override;
  void packet_lost(Peer& peer, SentPacket& packet) override;

  // ---- timers
  void expire(std::uint32_t most);
  [[nodiscard]] Time next_timer() const { return timers_.next(); }

 private:
  void prepare(const Peer& peer, OutgoingMessage& message) const;
  void start(Peer& peer, OutgoingMessage& message);
  void want_to_send(Peer& peer, OutgoingMessage& message);
  void finish_send(OutgoingMessage& message, Status status);
  void stop_sending(Peer& peer, OutgoingMessage& message);
  void cancel_refused(Peer& peer, OutgoingMessage& message);
  // Only send_end.cpp calls these two.
  inline void complete_send(const OutgoingMessage& message, bool released);
  inline void release_send(Peer& peer, OutgoingMessage& message);
  void release_one_sided(Peer& peer, OutgoingMessage& message);
  void end_hold(OutgoingMessage& message);
  void let_go(OutgoingMessage& message);
  void end_withdrawn_reading(OutgoingMessage& message);
  // Gives the message the peer's next number. False: the table has no place for it.
  [[nodiscard]] bool enter(Peer& peer, OutgoingMessage& message);
  [[nodiscard]] bool enter_gathered(Peer& peer, OutgoingMessage& message, GatherList& pieces);
  void follow(std::uint32_t index, Status status, bool has_left);
  [[nodiscard]] PeerOneSided& one_sided_of(Peer& peer);
  void forget_idle(Peer& peer);
  void leave_order(Peer& peer, OutgoingMessage& message);
  void take_turn(std::uint32_t operation, bool failed);
  void end_held(OutgoingMessage& message, Status status);
  void end_waiting(Peer& peer, Status status);
  void number_those_that_wait();
  void end_fetches(Peer& peer, Status status);
  [[nodiscard]] bool awaits_reply(const OutgoingMessage& message) const {
    return message.one_sided != kNoIndex && one_sided_.at(message.one_sided).awaits_reply;
  }
  void leave_fetches(Peer& peer, OneSidedSend& operation);
  void apply_one_sided_status(OutgoingMessage& message, wire::MessageStatus status);
  void complete_one_sided(const OutgoingMessage& message, bool released);
  void count_completed(OperationKind kind);
  void free_one_sided(OutgoingMessage& message);
  void advance_floor(Peer& peer);
  void apply_statuses(Peer& peer, const wire::StatusView& view, std::uint64_t left);
  void apply_status(Peer& peer, OutgoingMessage& message, wire::MessageStatus status);
  void queue_retransmit(Peer& peer, SlabId message, std::uint32_t fragment, SentPacket* record);
  void drop_retransmit(PeerSends& sends, std::uint32_t entry) {
    OutgoingMessage& message = messages_.at(retransmits_.at(entry).message.index);
    HAWSER_ASSERT(message.queued > 0);
    --message.queued;
    sends.retransmits.remove(retransmits_, entry);
    retransmits_.free(entry);
  }
  void drop_retransmits(PeerSends& sends, const OutgoingMessage& message);
  void consider_asking(OutgoingMessage& message);
  void ask_status(OutgoingMessage& message);
  void send_envelope(const OutgoingMessage& message);
  void record_packed(const Pick& pick, SentPacket& record);
  void unpick_packed(Peer& peer, const Pick& pick);
  void lose_packed(Peer& peer, SentPacket& record);
  void packed_is_late(Peer& peer, const SentPacket& record);
  // Visits the messages in a packed packet that have not ended.
  template <class Visit>
  void for_each_message_in(PeerSends& sends, const SentPacket& record, Visit&& visit) {
    const std::uint64_t first = expand(record.message_generation, sends.next_number);
    for (std::uint64_t i = 0; i <= record.fragment; ++i) {
      if (const auto index = sends.table.get(first + i)) visit(messages_.at(*index));
    }
  }

  Turn& turn_;
  PeerTable& peers_;
  PacketSender& sender_;
  Reporter& reporter_;
  Senders& senders_;
  TouchedPeers& touched_;
  ControlRoutes& routes_;
  PathSet& paths_;
  Regions& regions_;
  const std::uint64_t unscheduled_bytes_;

  const std::uint32_t most_replies_;
  Slab<OutgoingMessage> messages_;
  Slab<OneSidedSend> one_sided_;
  Slab<PeerOneSided> peers_one_sided_;
  ChannelOrder order_;
  IndexList<OneSidedSend, &OneSidedSend::order_link> unnumbered_;  // no place for their numbers yet
  Slab<Retransmit> retransmits_;
  DeadlineHeap timers_;
  Joints joints_;
  std::vector<std::uint32_t> replies_of_;  // by peer
  std::uint32_t unreleased_ = 0;
  std::uint32_t replies_ = 0;
};

}  // namespace hawser::proto
