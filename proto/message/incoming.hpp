// SPDX-License-Identifier: Apache-2.0
// Incoming owns the messages that peers send to this end, from the first fragment to the completion
// of their receive (docs/internals/protocol.md §7 to §9).
//
//   arrivals.cpp   a fragment's way into its place; duplicates, cancels, the sender's floor
//   eager.cpp      the short way of a message of one fragment
//   receives.cpp   posting, matching in order, claims, completion; the end of a session
//   expect.cpp     when missing fragments are requested
//   grants.cpp     who is granted how much
//   one_sided_in.cpp   what peers ask of this end's memory, and what its fetches bring
//
// Timers: `expect.timer` of a message, which `expire` fires, and `due` of a peer with paced
// messages, which `expire_pace` fires.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "hawser/types.hpp"
#include "proto/base/bitmap.hpp"
#include "proto/base/deadline_heap.hpp"
#include "proto/base/ring.hpp"
#include "proto/base/slab.hpp"
#include "proto/base/turn.hpp"
#include "proto/message/grants.hpp"
#include "proto/message/groups.hpp"
#include "proto/message/incoming_message.hpp"
#include "proto/message/matching.hpp"
#include "proto/message/message_table.hpp"
#include "proto/message/payload_store.hpp"
#include "proto/message/peer_messages.hpp"
#include "proto/path/local_nic.hpp"
#include "proto/path/receive_paths.hpp"
#include "proto/region/host_placement.hpp"
#include "proto/region/regions.hpp"
#include "proto/wire/packet.hpp"

namespace hawser::proto {

class ControlRoutes;
class Descriptors;
class OneSidedSender;
class Outbox;
class PacketSender;
class PeerTable;
class Reporter;
class TouchedPeers;
struct Peer;

// How urgently a receiver looks for the missing parts of a message (docs/internals/protocol.md §9).
enum class DetectionLevel : std::uint8_t { bulk, tail, gate };

// A long write or reply: what its first packet said.
struct LongWrite {
  wire::TargetPart target{};
  wire::SignalPart signal{};  // if the target's flags say so
};

class Incoming {
 public:
  // The receives work with these. All of them outlive them.
  struct Parts {
    Turn& turn;
    PeerTable& peers;
    PacketSender& sender;
    Reporter& reporter;
    TouchedPeers& touched;
    Outbox& outbox;
    ControlRoutes& routes;
    Descriptors& descriptors;
    const ReceivePaths& paths;
    OneSidedSender& sends;
    Regions& regions;
    MessageTablePool& numbers;  // of the peers' tables
  };
  explicit Incoming(const Parts& parts);

  // ---- messages
  [[nodiscard]] const IncomingMessage& at(std::uint32_t index) const { return messages_.at(index); }
  [[nodiscard]] Slab<IncomingMessage>& all() { return messages_; }
  // Messages without a receive that the caller has claimed.
  [[nodiscard]] std::uint32_t claims() const { return claims_; }
  [[nodiscard]] std::uint64_t bytes_held() const { return payloads_.bytes_held(); }
  // The final status that a sender may learn of an entry in its table; nothing while there is none.
  [[nodiscard]] std::optional<wire::MessageStatus> final_status(std::uint32_t entry) const;

  // ---- packets of a READY peer
  void on_floor(Peer& peer, std::uint32_t wire_floor);
  void on_data(Peer& peer, const wire::PacketView& packet);
  void on_packed(Peer& peer, const wire::PacketView& packet);
  void on_granted(Peer& peer, const wire::PacketView& packet);
  void on_envelope(Peer& peer, const wire::PacketView& packet);
  void on_write(Peer& peer, const wire::PacketView& packet);
  void on_read(Peer& peer, const wire::PacketView& packet);
  void on_atomic(Peer& peer, const wire::PacketView& packet);
  // A sequenced packet with so many bytes of payload has come.
  void count_arrival(std::uint64_t bytes) { grants_.budget.on_arrival(bytes); }

  // Moves notices of writes to the caller; returns how many.
  [[nodiscard]] bool has_notices() const { return !notices_.empty(); }
  std::size_t poll_notices(std::span<Completion> notices);

  // ---- receives
  // The oldest message held that a receive with these arguments would get, or null.
  [[nodiscard]] const UnexpectedEntry* probe(PeerId peer, std::uint16_t channel, std::uint64_t tag,
                                             std::uint64_t mask) const {
    return matching_.probe(peer, channel, tag, mask);
  }
  void post(const PostedReceive& receive);
  // False: the receive has a message, and will end with that.
  [[nodiscard]] bool cancel(OperationId operation, Status status);
  // Ends every receive that is still posted for any peer.
  void cancel_all(Status status);

  // ---- claims: messages that the caller has taken out of the matching
  [[nodiscard]] MessageId claim(const UnexpectedEntry& entry);
  // Null: there is no such claim, or no longer.
  [[nodiscard]] IncomingMessage* claimed(MessageId name);
  void receive_claimed(IncomingMessage& message, const PostedReceive& receive);
  void put_back(IncomingMessage& message);

  // ---- the end of a session
  // Ends what waits for this peer alone. Whole messages stay to be received, unless they are to be
  // dropped: a closing endpoint has reported their status.
  void end_session(Peer& peer, Status status, bool drops_whole);
  // For a closing endpoint: nobody will receive the whole messages that a session has left. Claims
  // of them end.
  void drop_held(Peer& peer);

  // ---- once a turn, and timers
  void give_grants();
  // Called now and then: checks whether this host's rings have overrun.
  void watch_rings();
  // The end of the interval in which a peer's pace is measured; kNever: none is.
  [[nodiscard]] Time pace_ends(const PeerReceives& receives) const {
    return receives.grantee == kNoIndex ? kNever : grants_.grantees.at(receives.grantee).due;
  }
  void expire_pace(const PeerReceives& receives);
  void expire(std::uint32_t most);
  [[nodiscard]] Time next_timer() const { return timers_.next(); }
  // Ends receives that a full store has kept waiting for too long.
  void judge_full_store();

 private:
  // ---- arrivals.cpp
  [[nodiscard]] IncomingMessage* message_at(std::uint32_t entry);
  [[nodiscard]] IncomingMessage* incoming_for(Peer& peer, const wire::PacketView& packet);
  [[nodiscard]] static std::uint16_t size_in(const Peer& peer, const wire::PacketView& packet);
  [[nodiscard]] IncomingMessage* make_incoming(Peer& peer, std::uint64_t number,
                                               const wire::PacketView& packet);
  [[nodiscard]] bool take_descriptor(Peer& peer, std::uint64_t number,
                                     const wire::EnvelopePart& envelope, SlabId& id);
  void give_back_unmatched(IncomingMessage& message);
  [[nodiscard]] bool may_enter(const Peer& peer, std::uint64_t number) const;
  void on_cancel(Peer& peer, const wire::PacketView& packet);
  void bury(Peer& peer, std::uint64_t number);
  void take_fragment(Peer& peer, IncomingMessage& message, const wire::PacketView& packet);
  static void place(IncomingMessage& message, std::uint64_t begin, const std::byte* bytes,
                    std::size_t count);
  void answer_again(Peer& peer, IncomingMessage& message);
  void arrived_whole(IncomingMessage& message);
  void free_incoming(IncomingMessage& message);

  // ---- one_sided_in.cpp
  [[nodiscard]] bool is_fresh(Peer& peer, const wire::PacketView& packet, std::uint64_t number,
                              IncomingMessage*& message);
  [[nodiscard]] bool may_settle(Peer& peer, std::uint64_t number);
  void settle(Peer& peer, std::uint64_t number, wire::MessageStatus status);
  [[nodiscard]] wire::MessageStatus finish_write(Peer& peer, const wire::TargetPart& target,
                                                 const Reach& reach,
                                                 const wire::SignalPart* signal);
  void begin_reply(Peer& peer, std::uint64_t number, const wire::PacketView& packet);
  void begin_long(Peer& peer, std::uint64_t number, const wire::PacketView& packet, OneSided kind,
                  std::byte* into);
  void reply_is_withdrawn(Peer& peer, IncomingMessage& message);
  [[nodiscard]] bool may_place(Peer& peer, IncomingMessage& message);
  void place_long(const IncomingMessage& message, std::uint64_t begin,
                  std::span<const std::byte> bytes);
  void long_is_whole(IncomingMessage& message);
  void end_long(IncomingMessage& message, wire::MessageStatus status);
  [[nodiscard]] bool has_place_for_notice(const wire::TargetPart& target) const;
  void notify(const Peer& peer, const wire::TargetPart& target, Status status);
  void leave_unfinished(const IncomingMessage& message, Status status);

  // ---- eager.cpp
  [[nodiscard]] bool take_eager(Peer& peer, const wire::PacketView& packet);
  void complete_eager(const Peer& peer, const wire::PacketView& packet,
                      const PostedReceive& receive);

  // ---- receives.cpp
  void process_in_order(Peer& peer);
  void process(IncomingMessage& message);
  void unclaim(IncomingMessage& message);
  void match(IncomingMessage& message, const PostedReceive& receive);
  void note_unposted(const PostedReceive& receive);
  void complete_receive(const IncomingMessage& message, Status status);
  void complete_unmatched(const PostedReceive& receive, Status status);
  [[nodiscard]] UnexpectedEntry unexpected_entry(const IncomingMessage& message,
                                                 std::uint32_t index) const;
  template <class Visit>
  void for_each_claim(const Peer& peer, Visit&& visit);

  // ---- expect.cpp
  struct Overtaking;
  [[nodiscard]] Overtaking overtaking_of(const Peer& peer) const;
  [[nodiscard]] DetectionLevel level_of(const IncomingMessage& message) const;
  [[nodiscard]] Duration detection_interval(const Peer& peer, const IncomingMessage& message) const;
  void expect(const Peer& peer, IncomingMessage& message, bool progress);
  void expire_expectation(IncomingMessage& message);
  void request_missing(IncomingMessage& message);
  void answered(Peer& peer, IncomingMessage& message, std::uint32_t fragment);
  void note_duplicate(Peer& peer, IncomingMessage& message, std::uint32_t fragment);

  // ---- grants.cpp
  [[nodiscard]] std::uint32_t grant_limit(const IncomingMessage& message) const;
  [[nodiscard]] GrantRank grant_rank(const IncomingMessage& message) const;
  void start_grants(IncomingMessage& message);
  void leave_grants(IncomingMessage& message);
  Grantee& count_granted(const Peer& peer, const IncomingMessage& message);
  void grant_progress(const Peer& peer, IncomingMessage& message);
  void regrade(IncomingMessage& message);
  void regrade(Grantee& grantee);
  void begin_pace(Grantee& grantee);
  void end_pace(Grantee& grantee);
  void raise_group(std::uint16_t channel, const Hint& hint);
  void grant(Grantee& grantee, IncomingMessage& message, std::uint64_t bytes);
  void grant_oldest();

  Turn& turn_;
  PeerTable& peers_;
  PacketSender& sender_;
  const std::span<const LocalNic> nics_;  // the sender's
  Reporter& reporter_;
  TouchedPeers& touched_;
  Outbox& outbox_;
  ControlRoutes& routes_;
  Descriptors& descriptors_;
  const ReceivePaths& paths_;
  OneSidedSender& sends_;
  Regions& regions_;
  const MessageTablePool& numbers_;

  Slab<IncomingMessage> messages_;
  static constexpr std::uint32_t kMostLongWrites = 1024;  // and long replies, of all peers
  Slab<LongWrite> long_writes_;
  std::vector<std::uint32_t> long_writes_of_;  // by peer
  Ring<Completion> notices_;
  HostPlacement host_;  // the buffers of this end's reads
  BlockPool bitmap_blocks_;
  Matching matching_;
  Groups groups_;
  Grants grants_;
  PayloadStore payloads_;
  DeadlineHeap timers_;
  std::uint32_t claims_ = 0;
};

}  // namespace hawser::proto
