// SPDX-License-Identifier: Apache-2.0
// How a session ends on purpose, and how a closed end reports it: CLOSE with the final statuses
// until it is answered, CLOSED, RESET (docs/internals/protocol.md §6).
//
// Timers: `close_at` of a peer, the next CLOSE; `close_wake` of the endpoint folds them.
//
// Invariants: once CLOSE has left (`close_sent`), nothing more is accepted from that peer. Each
// CLOSE therefore has the same contents and is final. Nothing more is acknowledged either: CLOSE
// answers everything that the peer still sends, at most once a response time.
#include <algorithm>
#include <bit>
#include <optional>

#include "proto/base/sequence.hpp"
#include "proto/message/incoming.hpp"
#include "proto/message/outgoing.hpp"
#include "proto/peer/patience.hpp"
#include "proto/peer/peer_lists.hpp"
#include "proto/peer/peer_table.hpp"
#include "proto/service/control_routes.hpp"
#include "proto/service/half_open_strangers.hpp"
#include "proto/service/outbox.hpp"
#include "proto/service/packet_sender.hpp"
#include "proto/service/reporter.hpp"
#include "proto/session/sessions.hpp"

namespace hawser::proto {

namespace {
// The time between two RESETs to one peer: enough for one to arrive, and no flood that others could
// start.
constexpr Duration kResetInterval = milliseconds(10);
// The least time between two CLOSEs to one silent peer.
constexpr Duration kCloseInterval = milliseconds(2);

// Why a session ends with a RESET. If the other end was only half READY, a third endpoint may have
// taken its place. A process that has restarted knows no token, so it sends no RESET.
Status reason_of(std::uint8_t flags) {
  if ((flags & wire::kClosingNoPlace) != 0) return Status::peer_full;
  return (flags & wire::kClosingOnPurpose) != 0 ? Status::peer_closed : Status::peer_timeout;
}

}  // namespace

wire::ClosingPart& Sessions::begin_closing(const Peer& peer, wire::PacketType type,
                                           wire::PacketWriter& writer) {
  writer.begin(type, peer.session.remote_index, peer.session.remote_token,
               to_wire(peer.sends.floor));
  return writer.part(wire::ClosingPart{session_sequence_, 0, 0, 0, {}});
}

// Sends CLOSED or RESET.
void Sessions::send_closing(Peer& peer, wire::PacketType type, std::uint8_t flags, Ways ways) {
  PacketBuffer* const buffer = sender_.take_buffer();
  if (buffer == nullptr) return;
  ++session_sequence_;
  wire::PacketWriter writer(*buffer, sender_.limits().control_bytes);
  begin_closing(peer, type, writer).flags = flags;
  (void)routes_.send(peer, ways, *buffer, writer);
}

// Sends all final statuses, in as many parts as they take. Beyond kMaxCloseParts outcomes stay
// unknown: that takes thousands of messages of unlike ends behind one that has none. The parts of
// one CLOSE share a sequence number. A part that finds no buffer comes with the next CLOSE.
void Sessions::send_close(Peer& peer) {
  const Ways ways = peer.session.close_sent ? Ways::all : Ways::one;
  peer.session.close_sent = true;
  ++session_sequence_;
  PacketBuffer* buffer = sender_.take_buffer();
  if (buffer == nullptr) return;
  wire::PacketWriter writer(*buffer, sender_.limits().control_bytes);
  wire::ClosingPart* part = &begin_closing(peer, wire::PacketType::close, writer);
  std::uint8_t index = 0;
  peer.receives.table.for_each([&](std::uint64_t number, std::uint32_t entry) {
    const auto status = incoming_.final_status(entry);
    if (!status || buffer == nullptr || writer.status(to_wire(number), *status)) return;
    if (index + 1u == PeerHandshake::kMaxCloseParts) return;
    (void)routes_.send(peer, ways, *buffer, writer);
    buffer = sender_.take_buffer();
    if (buffer == nullptr) return;
    writer = wire::PacketWriter(*buffer, sender_.limits().control_bytes);
    part = &begin_closing(peer, wire::PacketType::close, writer);
    part->part = ++index;
    const bool fits = writer.status(to_wire(number), *status);
    HAWSER_ASSERT(fits);
  });
  if (buffer == nullptr) return;
  part->flags = wire::kClosingLast;
  (void)routes_.send(peer, ways, *buffer, writer);
}

void Sessions::disconnect(Peer& peer) {
  if (peer.session.state == SessionState::ready) send_close(peer);
  if (peer.session.state != SessionState::failed) fail_peer(peer, Status::endpoint_closed);
}

void Sessions::close() {
  closing_ = true;
  closing_since_ = close_wake_ = turn_.now();
  wake_all();
}

// The peer still sends, so our CLOSE has not reached it: send one now, unless one is under way.
void Sessions::repeat_close(Peer& peer) {
  reporter_.drop(DropReason::not_connected);
  if (turn_.now() >= peer.handshake.answer_at) peer.handshake.close_at = turn_.now();
}

// A RESET's flags say how the peer's last session ended.
std::uint8_t Sessions::flags_of_end(const Peer& peer) {
  const bool on_purpose = peer.session.failure == Status::endpoint_closed ||
                          peer.session.failure == Status::peer_closed;
  return on_purpose ? wire::kClosingOnPurpose : 0;
}

// Answers a packet of a session that has ended here, so that the peer ends it too.
void Sessions::send_reset(Peer& peer) {
  if (peer.session.remote_token == 0 || turn_.now() < peer.handshake.answer_at) return;
  peer.handshake.answer_at = turn_.now() + kResetInterval;
  ++turn_.counters.resets_sent;
  send_closing(peer, wire::PacketType::reset, flags_of_end(peer), Ways::all);
}

void Sessions::on_closing(Peer& peer, NicPair from, const wire::PacketView& packet) {
  if (!wire::verify(packet, job_secret_)) return reporter_.drop(DropReason::bad_mac);
  const wire::ClosingPart& closing_part = *packet.closing;
  constexpr std::uint8_t kNotNow = wire::kClosingNoPlace | wire::kClosingStaleEpoch;
  if (is_called(peer) && packet.type == wire::PacketType::reset &&
      (closing_part.flags & kNotNow) != 0) {
    // This end goes on calling: a place may become free, and the session of another process may
    // end.
    peer.session.refused = (closing_part.flags & wire::kClosingNoPlace) != 0;
    peer.session.outdated = !peer.session.refused;
    return;
  }
  if (peer.session.state == SessionState::idle || peer.session.state == SessionState::calling) {
    return reporter_.drop(DropReason::not_connected);
  }
  const auto ahead =
      static_cast<std::int32_t>(closing_part.sequence - peer.identity.remote_sequence);
  if (ahead < 0 || (ahead == 0 && packet.type != wire::PacketType::close)) {
    return reporter_.drop(DropReason::stale_session);
  }
  peer.identity.remote_sequence = closing_part.sequence;
  peer.session.route = from;  // the answer may not get through over another pair
  if (peer.session.state == SessionState::answered) become_ready(peer);  // it knows our token
  switch (packet.type) {
    case wire::PacketType::close: return on_close(peer, packet);
    case wire::PacketType::closed: peer.session.close_answered |= peer.session.close_sent; return;
    default:
      if (peer.session.state != SessionState::ready) return;
      if (peer.session.close_sent) {  // as good as CLOSED
        peer.session.close_answered = true;
        return;
      }
      return fail_peer(peer, reason_of(closing_part.flags), Reason::gave_up);
  }
}

void Sessions::on_close(Peer& peer, const wire::PacketView& packet) {
  if (peer.session.state == SessionState::ready) {
    peer.session.last_heard = turn_.now();
    const wire::ClosingPart& said = *packet.closing;
    if (said.part >= PeerHandshake::kMaxCloseParts) return reporter_.drop(DropReason::bad_field);
    packet.blocks.visit(
        [&](const wire::StatusView& view) { outgoing_.on_final_status(peer, view); });
    peer.handshake.close_parts[said.part / 64] |= std::uint64_t{1} << (said.part % 64);
    if ((said.flags & wire::kClosingLast) != 0) {
      peer.handshake.close_part_count = static_cast<std::uint8_t>(said.part + 1);
    }
    int here = 0;
    for (const std::uint64_t word : peer.handshake.close_parts) here += std::popcount(word);
    if (peer.handshake.close_part_count == 0 || here < peer.handshake.close_part_count)
      return touched_.add(peer);
  }
  // The peer repeats CLOSE if the answer was lost.
  const Ways ways = peer.session.close_answered ? Ways::all : Ways::one;
  peer.session.close_answered = true;
  send_closing(peer, wire::PacketType::closed, 0, ways);
  if (peer.session.state == SessionState::ready) fail_peer(peer, Status::peer_closed);
}

// Closing lingers for the final statuses of sent messages, for close_timeout at most. It lingers
// for due control for half of that. Then it sends CLOSE until all have answered, or one and a half
// close_timeout are over. Time during which this end was away does not count.
void Sessions::progress_closing() {
  if (!closing_ || closed_) return;
  const Duration timeout = milliseconds(turn_.tunables.close_timeout_ms);
  const Time since = closing_since_ + turn_.absence().since(closing_since_);
  Time linger_until = since;
  bool unanswered = false;
  peers_.for_each_awake([&](Peer& peer) {
    const bool ready = peer.session.state == SessionState::ready;
    unanswered |= ready && !peer.session.close_answered;
    if (peer.session.state == SessionState::failed || peer.session.close_sent) return;
    if (peer.open_sends > 0) linger_until = since + timeout;
    if (ready && outbox_.has_due(peer)) linger_until = std::max(linger_until, since + timeout / 2);
  });
  if (turn_.now() < linger_until) {
    close_wake_ = linger_until;
    return;
  }
  const Time give_up = since + timeout + timeout / 2;
  if (unanswered && turn_.now() < give_up) {
    close_wake_ = give_up;
    peers_.for_each_awake([&](Peer& peer) {
      if (peer.session.state != SessionState::ready || peer.session.close_answered) return;
      if (turn_.now() >= peer.handshake.close_at) {
        send_close(peer);
        peer.handshake.close_at =
            turn_.now() + std::max(kCloseInterval, peer.response.overdue(turn_.granularity));
        peer.handshake.answer_at =
            turn_.now() + std::max(turn_.granularity, peer.response.smoothed());
      }
      close_wake_ = earlier(close_wake_, peer.handshake.close_at);
    });
    return;
  }
  peers_.for_each_awake([&](Peer& peer) {
    if (HalfOpenStrangers::contains(peer) && !is_pending(peer)) return give_back(peer);
    if (peer.session.state == SessionState::ready && !peer.session.close_answered) {
      send_close(peer);  // the last word, whether it arrives or not
    }
    if (peer.session.state != SessionState::failed) fail_peer(peer, Status::endpoint_closed);
    incoming_.drop_held(peer);
  });
  incoming_.cancel_all(Status::endpoint_closed);
  closed_ = outgoing_.all().size() == 0 || turn_.now() >= since + timeout * 2;
  close_wake_ = closed_ ? kNever : turn_.now() + milliseconds(1);
}

}  // namespace hawser::proto
