// SPDX-License-Identifier: Apache-2.0
// The parts of a peer that belong to its session (docs/internals/protocol.md §6 and §7). They say
// how it stands, whether the peer lives, who it is, and how calling and closing go.
//
// Plain data: the sources of this folder hold the rules.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "hawser/stats.hpp"
#include "hawser/types.hpp"
#include "proto/base/slab.hpp"
#include "proto/base/time.hpp"
#include "proto/path/path.hpp"
#include "proto/session/session_state.hpp"
#include "proto/wire/packet.hpp"

namespace hawser::proto {

// Whether a peer is in its first calls, or waits for its turn. Only CallQueue changes it.
class CallState {
  friend class CallQueue;

  bool calls : 1 = false;
  bool waits : 1 = false;
};

// Whether a peer is a stranger that is half open. Only HalfOpenStrangers changes it.
class HalfOpenMark {
  friend class HalfOpenStrangers;

  bool is_listed : 1 = false;
  bool in_crowd : 1 = false;
  std::uint16_t bucket : 10 = 0;  // of the address from which it came
};

// How the session stands, and when the peer was heard. Each packet may need it.
struct PeerSession {
  SessionState state = SessionState::idle;
  Status failure = Status::ok;  // FAILED: why
  Reason failure_reason = Reason::none;
  bool wanted : 1 = false;      // connect was called or operations were posted here
  bool announcing : 1 = false;  // READY: calls until the peer has our NICs' present addresses
  bool close_sent : 1 = false;
  bool close_answered : 1 = false;
  bool timeout_put_off : 1 = false;
  bool refused : 1 = false;        // called: the peer answered that it has no place
  bool outdated : 1 = false;       // called: the peer answered that our epoch is no higher
  bool questioned : 1 = false;     // somebody needs to know whether it lives; ends when it is heard
  bool floor_awaited : 1 = false;  // this end can't rest without its floor; ends likewise
  bool named : 1 = false;          // called: the program named the process of verified_epoch
  bool met : 1 = false;            // an incarnation of it was READY here
  std::uint8_t size_class : 4 = 0;  // of long messages that begin now
  CallState call_state;
  HalfOpenMark half_open;
  NicPair route{};  // the pair over which it was last heard
  std::uint8_t remote_nics = 0;
  std::uint16_t ways_known = 0;  // the newest change of our ways that the size class follows

  std::uint32_t remote_index = 0xffffffffu;
  std::uint16_t fragment_bytes = 0;  // of that class: payload of a full packet
  std::uint16_t session_bytes = 0;   // the same of class 0, as both ends agreed
  std::uint32_t remotes = kNoIndex;  // of RemoteHandles
  std::uint64_t remote_token = 0;
  std::uint64_t token = 0;  // ours: the peer must send it
  Duration remote_absence{};

  Time call_at = kNever;
  Time last_heard{};
  Time pending_since{};     // since when something is pending; 0: nothing is
  Time small_only_since{};  // nothing large passes on the only path that is left; 0: not so
  Time keepalive_at = kNever;
  Time stall_at{};        // when to look for stalled operations; 0: nothing is pending
  Time used_at{};         // the last call on it, or the last moment at which it could not rest
  Time rest_at = kNever;  // when to check whether it has been quiet
};
static_assert(sizeof(PeerSession) == 112);

// Both ends have agreed on the payload of a full packet.
inline void set_session_bytes(PeerSession& session, std::uint32_t bytes) {
  session.session_bytes = session.fragment_bytes = static_cast<std::uint16_t>(bytes);
  session.size_class = 0;
}

// The peer's identity and its NICs. Incarnations are (epoch, counter).
struct PeerIdentity {
  std::uint64_t remote_id = 0;
  std::uint64_t remote_epoch = 0;
  std::uint32_t remote_counter = 0;
  std::uint32_t remote_sequence = 0;  // newest session packet applied
  // The incarnation that was READY here last, or a process that the program named. Both 0: none.
  std::uint64_t verified_epoch = 0;
  std::uint32_t verified_counter = 0;     // 0: any incarnation of the process follows
  std::uint32_t counter = 0;              // of our handshake
  std::array<wire::NicRecord, 8> nics{};  // the first NICs; PeerTable::nic_of has them all
  std::array<std::uint32_t, kMaxNics> remote_nic_sequences{};  // of its newest NIC_STATE
  std::uint64_t remote_unscheduled = 0;  // bytes of a message that it sends before a grant
};

// Calls, and the exchange that closes a session.
struct PeerHandshake {
  Duration call_interval{};
  std::uint32_t calls = 0;
  std::uint16_t call_turn = 0;        // where the next choice of a pair to call over begins
  std::uint8_t close_part_count = 0;  // of the peer's CLOSE; 0: not known
  bool one_sided : 1 = false;         // the peer knows one-sided operations
  bool size_classes : 1 = false;      // and size classes
  std::uint32_t announced_from = 0;   // sequence of the first HELLO that told our NICs' addresses
  std::uint32_t offered_bytes = 0;    // fragment_bytes as we tell it; with our token it is fixed
  Time called_at{};                   // of the newest HELLO: its answer measures the response time
  Time calling_since{};
  std::uint64_t cookie = 0;  // from the newest CHALLENGE of our HELLO
  static constexpr std::size_t kMaxCloseParts = 128;
  std::array<std::uint64_t, kMaxCloseParts / 64> close_parts{};  // that are here, a bit each
  Time close_at{};
  Time answer_at{};  // the next RESET or CLOSE to a peer that still sends goes no sooner
};

}  // namespace hawser::proto
