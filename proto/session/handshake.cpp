// SPDX-License-Identifier: Apache-2.0
// The handshake (docs/internals/protocol.md §6): what a HELLO must prove before it is believed, and
// how both sides learn of each other. calls.cpp decides when a peer is called.
//
// The handshake is symmetric: both sides send their whole state, and a side is READY once the other
// has echoed its token. HELLOs that cross therefore make one session.
//
// Invariants: a session packet whose MAC or target is wrong changes nothing. A HELLO costs memory
// only if few strangers are half open and slots are free, or if its sender has proven that it
// receives at its address. Only such proof changes the state of a known peer.
#include <algorithm>

#include "proto/message/outgoing.hpp"
#include "proto/peer/peer_lists.hpp"
#include "proto/peer/peer_table.hpp"
#include "proto/service/control_routes.hpp"
#include "proto/service/half_open_strangers.hpp"
#include "proto/service/packet_sender.hpp"
#include "proto/service/reporter.hpp"
#include "proto/session/sessions.hpp"

namespace hawser::proto {

namespace {

// The time between two events that report refused callers.
constexpr Duration kTellRefusals = milliseconds(1000);

bool is_same_session(const Peer& peer, const wire::SessionPart& said) {
  return peer.session.remote_token != 0 && said.epoch == peer.identity.remote_epoch &&
         said.counter == peer.identity.remote_counter && said.my_token == peer.session.remote_token;
}

// Compares the sender's incarnation with another: 0 is the same, below 0 is older.
int ahead_of(const wire::SessionPart& said, std::uint64_t its_epoch, std::uint32_t counter) {
  if (said.epoch != its_epoch) return said.epoch > its_epoch ? 1 : -1;
  const auto ahead = static_cast<std::int32_t>(said.counter - counter);
  return ahead > 0 ? 1 : ahead < 0 ? -1 : 0;
}

// Compares with what the peer has proven, not with what was said in its name. The peer may have
// been READY with the same incarnation before, if our side got no further than ANSWERED. Then the
// echo of our present token proves that this is no old packet. The same goes for an older epoch of
// a peer whose clock went back before it restarted.
bool is_of_now(const Peer& peer, const wire::SessionPart& said, bool echoed) {
  if (peer.identity.verified_epoch == 0 && peer.identity.verified_counter == 0) return true;
  const int ahead = ahead_of(said, peer.identity.verified_epoch, peer.identity.verified_counter);
  const bool may_be_of_now = ahead == 0 || said.epoch != peer.identity.verified_epoch;
  return ahead > 0 || (may_be_of_now && echoed && is_called(peer));
}

// A call from a process whose epoch is not above the verified one. The process may be long gone, it
// may be the present one after its clock went back, or it may use another one's name.
bool calls_with_stale_epoch(const Peer& peer, const wire::PacketView& packet) {
  return packet.type == wire::PacketType::hello &&
         packet.session->epoch <= peer.identity.verified_epoch;
}

bool was_ready_with(const Peer& peer, const wire::SessionPart& said) {
  return peer.identity.verified_epoch == said.epoch &&
         peer.identity.verified_counter == said.counter;  // that is never 0
}

}  // namespace

struct Sessions::Handshake {
  // A WELCOME for a peer at rest, of another incarnation that is not above the verified one. A
  // resting peer calls nobody, so the WELCOME answers nothing. It must not wake the peer, which
  // would announce its addresses again and get another WELCOME for that.
  static bool is_in_vain_at_rest(Sessions& sessions, const wire::PacketView& packet) {
    const wire::SessionPart& said = *packet.session;
    const std::uint32_t index = sessions.peers_.find(said.sender_id);
    if (packet.type != wire::PacketType::welcome || index == kNoIndex) return false;
    if (sessions.peers_.is_awake(index)) return false;
    const RestingPeer& record = sessions.peers_.resting(index);
    const int ahead = ahead_of(said, record.remote_epoch, record.remote_counter);
    const bool is_its_own = ahead == 0 && said.my_token == record.remote_token;
    return record.verified && ahead <= 0 && !is_its_own;
  }

  static KnownOfSender known_of(Sessions& sessions, const wire::SessionPart& said) {
    const Peer* const peer = sessions.find_peer(said.sender_id);
    if (peer == nullptr) return {};
    const PeerIdentity& identity = peer->identity;
    KnownOfSender known;
    known.verified = {identity.verified_epoch, identity.verified_counter};
    if (peer->session.remote_token != 0)
      known.present = {identity.remote_epoch, identity.remote_counter};
    return known;
  }

  // Whether this end knows the sender as another incarnation now.
  static bool knows_another(const Peer& peer, const wire::SessionPart& said) {
    return peer.session.remote_token != 0 &&
           ahead_of(said, peer.identity.remote_epoch, peer.identity.remote_counter) != 0;
  }

  // Whether the sender of the HELLO has proven that it receives at the address now.
  static bool is_proven(Sessions& sessions, const wire::SessionPart& said,
                        const NicAddress& address) {
    return sessions.keys_.is_cookie_good(said, address, known_of(sessions, said),
                                         sessions.turn_.now());
  }

  static bool has_moved(Sessions& sessions, Peer& peer, std::span<const wire::NicRecord> records) {
    for (std::size_t i = 0; i < std::min<std::size_t>(records.size(), peer.session.remote_nics);
         ++i) {
      if (sessions.peers_.nic_of(peer, i).address != records[i].address) return true;
    }
    return false;
  }

  // The peer doesn't know that the session has ended here, and may have moved since.
  static void tell_of_end(Sessions& sessions, std::size_t nic, Peer& peer,
                          const wire::PacketView& packet) {
    peer.identity.remote_sequence = packet.session->sequence;
    sessions.learn_addresses(peer, packet.nics);
    peer.session.route = {nic, packet.header->nic()};
    sessions.send_reset(peer);
  }

  // We call the peer anew, and it sends HELLO from elsewhere for the session that it does not know
  // to be over. Our calls go to its old address.
  static bool calls_elsewhere(Sessions& sessions, Peer& peer, const wire::PacketView& packet) {
    return peer.session.state == SessionState::calling && packet.type == wire::PacketType::hello &&
           was_ready_with(peer, *packet.session) &&
           packet.nics.size() == peer.session.remote_nics && has_moved(sessions, peer, packet.nics);
  }

  static void find_out_where(Sessions& sessions, std::size_t nic, Peer& peer,
                             const wire::PacketView& packet) {
    const NicAddress& address = packet.nics[packet.header->nic()].address;
    if (is_proven(sessions, *packet.session, address)) {
      sessions.call_elsewhere(peer, packet.nics);
      sessions.touched_.add(peer);
    } else {
      sessions.send_challenge(nic, *packet.session, address);
    }
  }

  // Ends the session that the peer has left for the one that it begins now. If its process is the
  // same, that process gave it up.
  static void give_way(Sessions& sessions, Peer& peer, const wire::SessionPart& said) {
    const bool is_same_process = said.epoch == peer.identity.remote_epoch;
    sessions.fail_peer(peer, is_same_process ? Status::peer_timeout : Status::peer_restarted,
                       is_same_process ? Reason::gave_up : Reason::none);
  }

  // A process that is older than the one whose address the program named, elsewhere. At that
  // address it would be the one that the program means: its host's clock went back.
  static bool is_superseded(Sessions& sessions, Peer& peer, const wire::PacketView& packet) {
    return peer.session.named && is_called(peer) &&
           packet.session->epoch < peer.identity.verified_epoch &&
           has_moved(sessions, peer, packet.nics);
  }

  // Whether the HELLO carries the cookie that was made for its address when nobody of that name was
  // known.
  static bool proves_as_stranger(Sessions& sessions, const wire::PacketView& packet) {
    return packet.type == wire::PacketType::hello && packet.session->cookie != 0 &&
           sessions.keys_.is_cookie_good(*packet.session, packet.nics[packet.header->nic()].address,
                                         KnownOfSender{}, sessions.turn_.now());
  }

  // Answers a sender that is no peer. Takes no state, and is shorter than the HELLO.
  template <class Write>
  static void answer_stranger(Sessions& sessions, std::size_t nic, const wire::SessionPart& hello,
                              const NicAddress& address, wire::PacketType type, Write&& write) {
    Nic& through = *sessions.nics_[nic].nic;
    RemoteHandle to = kNoRemote;
    if (through.open_remote(address, to) != Status::ok) return;
    if (PacketBuffer* const buffer = sessions.sender_.take_buffer()) {
      wire::PacketWriter writer(*buffer);
      writer.begin(type, hello.my_index, hello.my_token, 0);
      write(writer);
      (void)sessions.sender_.send_to(nic, to, *buffer, writer);
    }
    through.close_remote(to);
  }

  // Refuses a caller, which goes on calling.
  static void turn_away(Sessions& sessions, std::size_t nic, const wire::SessionPart& hello,
                        const NicAddress& address, std::uint8_t flags) {
    ++sessions.session_sequence_;
    answer_stranger(sessions, nic, hello, address, wire::PacketType::reset, [&](auto& writer) {
      writer.part(wire::ClosingPart{sessions.session_sequence_, 0, flags, 0, {}});
    });
  }

  // For a session packet that is not of now, from a known peer. True if its process may follow the
  // verified one because its clock went back. Otherwise this function answers the packet.
  static bool may_follow(Sessions& sessions, std::size_t nic, Peer& peer,
                         const wire::PacketView& packet) {
    const wire::SessionPart& said = *packet.session;
    const NicAddress& address = packet.nics[packet.header->nic()].address;
    const bool superseded = is_superseded(sessions, peer, packet);
    if (!superseded && calls_elsewhere(sessions, peer, packet)) {
      find_out_where(sessions, nic, peer, packet);
    } else if (calls_with_stale_epoch(peer, packet)) {
      if (!is_proven(sessions, said, address)) {
        sessions.send_challenge(nic, said, address);
        return false;
      }
      const bool is_older = said.epoch < peer.identity.verified_epoch;
      if (is_older && !superseded && peer.session.state != SessionState::ready) return true;
      if (is_called(peer) && was_ready_with(peer, said)) {
        // The caller gets in if it answers our call. A RESET that arrived after that would end the
        // session.
        sessions.reporter_.drop(DropReason::stale_session);
        return false;
      }
      // Asks whether the other process still lives. If it has been silent for a peer timeout by
      // then, the caller's next HELLO finds the session ended.
      peer.session.questioned |= is_older && peer.session.state == SessionState::ready;
      sessions.touched_.add(peer);
      turn_away(sessions, nic, said, address,
                has_not_heard_of_end(peer, said) ? flags_of_end(peer) : wire::kClosingStaleEpoch);
    }
    sessions.reporter_.drop(DropReason::stale_session);
    return false;
  }

  // The session was READY here and has ended, and another call of this end may have followed. The
  // caller was answered, and calls on with the incarnation of that session.
  static bool has_not_heard_of_end(const Peer& peer, const wire::SessionPart& said) {
    return peer.session.state != SessionState::ready && was_ready_with(peer, said) &&
           said.echo_token != 0;
  }
};

void Sessions::send_session(Peer& peer, wire::PacketType type, NicPair over, std::uint64_t cookie) {
  const RemoteHandle to = sender_.remote(peer, over);
  PacketBuffer* const buffer = to == kNoRemote ? nullptr : sender_.take_buffer();
  if (buffer == nullptr) return;
  wire::PacketWriter writer(*buffer);
  const bool known = peer.session.remote_token != 0;
  writer.begin(type, known ? peer.session.remote_index : wire::kNoReceiver,
               known ? peer.session.remote_token : 0, 0);
  wire::SessionPart part{};
  part.sender_id = endpoint_id_;
  part.target_id = peer.identity.remote_id;
  part.epoch = epoch_;
  part.counter = peer.identity.counter;
  part.my_index = name_of(peer);
  part.my_token = peer.session.token;
  part.echo_epoch = known ? peer.identity.remote_epoch : 0;
  part.echo_counter = known ? peer.identity.remote_counter : 0;
  part.echo_token = known ? peer.session.remote_token : 0;
  part.sequence = ++session_sequence_;
  part.first_number = turn_.tunables.initial_sequence;
  part.fragment_bytes = peer.handshake.offered_bytes;
  part.nics = static_cast<std::uint8_t>(nics_.size());
  part.features = wire::kFeatureOneSided | wire::kFeatureSizeClasses;
  part.absence_ms = static_cast<std::uint16_t>(turn_.tunables.longest_absence_ms);
  part.cookie = cookie;
  part.unscheduled_bytes = outgoing_.unscheduled_bytes();
  writer.part(part);
  for (std::size_t i = 0; i < nics_.size(); ++i) writer.part(nic_record(i));
  ++turn_.counters.handshakes_sent;
  (void)sender_.send_to(over.local, to, *buffer, writer);
}

bool Sessions::echoes_us(const Peer& peer, const wire::SessionPart& said) const {
  return peer.session.token != 0 && said.echo_epoch == epoch_ &&
         said.echo_counter == peer.identity.counter && said.echo_token == peer.session.token;
}

void Sessions::on_session(std::size_t nic, const wire::PacketView& packet) {
  const wire::SessionPart& said = *packet.session;
  if (!wire::verify(packet, job_secret_)) return reporter_.drop(DropReason::bad_mac);
  if (said.target_id != endpoint_id_ || said.sender_id == endpoint_id_ || said.my_token == 0 ||
      said.counter == 0) {
    return reporter_.drop(DropReason::stale_session);
  }
  for (std::size_t i = 0; i < packet.nics.size(); ++i) {
    if (packet.nics[i].index != i) return reporter_.drop(DropReason::bad_field);
  }
  const std::uint8_t far = packet.header->nic();
  if (far >= packet.nics.size()) return reporter_.drop(DropReason::bad_field);

  Peer* const found = caller(nic, packet);
  if (found == nullptr) return;
  Peer& peer = *found;
  const bool was_ready = peer.session.state == SessionState::ready;
  const bool echoed = echoes_us(peer, said);
  // The peer moved while it calls. It gets answers at its new address once it has proven that.
  if (!was_ready && !echoed && Handshake::has_moved(*this, peer, packet.nics)) {
    const NicAddress& address = packet.nics[far].address;
    if (!Handshake::is_proven(*this, said, address)) return send_challenge(nic, said, address);
    learn_addresses(peer, packet.nics);
  }
  peer.identity.remote_sequence = said.sequence;
  peer.session.last_heard = turn_.now();
  peer.session.route = {nic, far};

  if (echoed) learn_addresses(peer, packet.nics);
  if (packet.type == wire::PacketType::welcome && peer.session.announcing &&
      static_cast<std::int32_t>(static_cast<std::uint32_t>(said.cookie) -
                                peer.handshake.announced_from) >= 0) {
    peer.session.announcing = false;
    peer.session.call_at = kNever;
  }
  if (!was_ready && echoed) {
    if (peer.handshake.calls == 1) {
      // An absence of this end says nothing about the other.
      const Duration took = turn_.now() - peer.handshake.called_at;
      const Duration away = turn_.absence().since(peer.handshake.called_at);
      const Duration initial = microseconds(turn_.tunables.initial_rtt_us);
      peer.response = first_guess(std::max(took - away, std::min(took, initial)));
    }
    become_ready(peer);
  } else if (!was_ready) {
    if (peer.session.state != SessionState::answered) {
      peer.session.state = SessionState::answered;
      if (turn_.tracing()) reporter_.trace_session(peer);
    }
    const bool is_proven = Handshake::proves_as_stranger(*this, packet);
    if (is_proven) half_open_.leave(peer);  // enters anew: a new sign of life
    enter_half_open(peer, is_proven);
  }
  if (was_ready) paths_.meet(peer, nic, far);
  if (packet.type == wire::PacketType::hello || !was_ready) {
    send_session(peer, wire::PacketType::welcome, routes_.find_way(peer, {nic, far}),
                 said.sequence);
  }
  touched_.add(peer);
}

// The sender of a session packet that is new and believed. Null: nothing more is to be done.
Peer* Sessions::caller(std::size_t nic, const wire::PacketView& packet) {
  const wire::SessionPart& said = *packet.session;
  if (Handshake::is_in_vain_at_rest(*this, packet)) {
    reporter_.drop(DropReason::stale_session);
    return nullptr;
  }
  Peer* found = find_peer(said.sender_id);
  const bool same = found != nullptr && is_same_session(*found, said);
  if (same && static_cast<std::int32_t>(said.sequence - found->identity.remote_sequence) <= 0) {
    reporter_.drop(DropReason::stale_session);
    return nullptr;
  }
  const bool ended = same && found->session.state == SessionState::failed;
  if (ended && (echoes_us(*found, said) || was_ready_with(*found, said))) {
    reporter_.drop(DropReason::stale_session);
    if (echoes_us(*found, said)) Handshake::tell_of_end(*this, nic, *found, packet);
    return nullptr;
  }
  // The session ended before it was READY anywhere. The caller can't know, and goes on calling.
  return same && !ended ? found : admit(nic, packet, found);
}

// Decides whether to believe a session packet of an unknown session. If so, returns the peer with
// the packet's state; otherwise null. `peer` is null if nobody of that name is known.
Peer* Sessions::admit(std::size_t nic, const wire::PacketView& packet, Peer* peer) {
  const wire::SessionPart& said = *packet.session;
  const auto refuse = [this](DropReason reason) {
    reporter_.drop(reason);
    return nullptr;
  };
  const NicAddress& address = packet.nics[packet.header->nic()].address;
  const bool echoed = peer != nullptr && echoes_us(*peer, said);
  // Applies to a failed session too: its delayed packets must not revive it.
  if (peer != nullptr &&
      (Handshake::is_superseded(*this, *peer, packet) || !is_of_now(*peer, said, echoed))) {
    if (!Handshake::may_follow(*this, nic, *peer, packet)) return nullptr;
  }
  if (packet.type == wire::PacketType::welcome && !echoed) {
    return refuse(DropReason::stale_session);
  }
  // A closing endpoint makes no new session, unless it still has something to send there.
  if (closing_ && (peer == nullptr || peer->open_sends == 0)) return refuse(DropReason::limit);
  const bool must_prove =
      peer == nullptr ? is_crowded() : peer->session.remote_token != 0 || peer->session.met;
  // An echo only shows that its sender was there after this end began to call. The incarnation that
  // is known now may have followed it, and may be READY with the token that both of them have.
  const bool echo_suffices = echoed && !Handshake::knows_another(*peer, said);
  if (must_prove && !echo_suffices && !Handshake::is_proven(*this, said, address)) {
    send_challenge(nic, said, address);
    return nullptr;
  }
  const bool is_new = peer == nullptr;
  if (is_new) peer = make_peer(said.sender_id, Asker::caller);
  if (peer == nullptr) {
    send_refusal(nic, said, address);
    return refuse(DropReason::limit);
  }
  if (peer->session.state == SessionState::ready) Handshake::give_way(*this, *peer, said);
  if (!learn_session(*peer, said, packet.nics)) {
    if (is_new) give_back(*peer);
    return refuse(DropReason::limit);
  }
  return peer;
}

// Asks the sender of a HELLO to send it again with a cookie. Only a receiver at `address` can know
// the cookie.
void Sessions::send_challenge(std::size_t nic, const wire::SessionPart& hello,
                              const NicAddress& address) {
  ++turn_.counters.challenges_sent;
  Handshake::answer_stranger(
      *this, nic, hello, address, wire::PacketType::challenge, [&](auto& writer) {
        const KnownOfSender known = Handshake::known_of(*this, hello);
        writer.part(wire::ChallengePart{keys_.cookie(hello, address, known, turn_.now()), {}});
      });
}

// All places are taken. The caller goes on calling, as one may become free.
void Sessions::send_refusal(std::size_t nic, const wire::SessionPart& hello,
                            const NicAddress& address) {
  ++turn_.counters.calls_refused;
  Handshake::turn_away(*this, nic, hello, address, wire::kClosingNoPlace);
  if (turn_.now() < places_.tell_at) return;
  places_.tell_at = turn_.now() + kTellRefusals;
  turn_.warn({.kind = Event::Kind::peer_refused,
              .reason = Reason::no_place,
              .endpoint_id = hello.sender_id,
              .nic = static_cast<std::uint8_t>(nic)});
}

// Sends the HELLO again, with the cookie, from the NIC whose address it proves. Each cookie
// triggers this once; then the timer repeats it. In ANSWERED a stranger may have told the peer's
// NICs. Then the number of the asking NIC means nothing, so this end answers all of them.
//
// An end in ANSWERED may be challenged for its WELCOME, without a HELLO of its own: the challenger
// then knows another incarnation of it. The asking NIC got the WELCOME, so its number is right. No
// timer repeats the answer, so each CHALLENGE triggers one.
void Sessions::on_challenge(std::size_t nic, Peer& peer, const wire::PacketView& packet) {
  if (!wire::verify(packet, job_secret_)) return reporter_.drop(DropReason::bad_mac);
  const SessionState state = peer.session.state;
  const bool announces = state == SessionState::ready && peer.session.announcing;
  const bool has_called = is_called(peer) && peer.handshake.calls > 0;
  const bool has_welcomed = state == SessionState::answered && !has_called;
  if (!announces && !has_called && !has_welcomed) return reporter_.drop(DropReason::stale_session);
  if (peer.handshake.cookie == packet.challenge->cookie && !has_welcomed) return;
  peer.handshake.cookie = packet.challenge->cookie;
  if (announces) return;  // the next announcement carries it
  peer.handshake.called_at = turn_.now();
  const bool only_there = state == SessionState::calling || has_welcomed;
  for (std::uint32_t far = 0; far < peer.session.remote_nics; ++far) {
    if (only_there && far != packet.header->nic()) continue;
    send_session(peer, wire::PacketType::hello, {nic, far}, peer.handshake.cookie);
  }
}

}  // namespace hawser::proto
