// SPDX-License-Identifier: Apache-2.0
// Events about NICs, paths and peers, each with its reason, and verdicts on who is to blame.
//
// An event announces every change of state once:
//
//   NIC    UP <-> DOWN when its driver reports it (nic_down, nic_up). Also a new address
//          (nic_moved).
//   path   UP -> SUSPECT -> DOWN -> PROBING -> UP, and the short cuts between them (path_suspect,
//          path_down, path_probing, path_up). A new session's paths start UP without an event. A
//          bridge starts DOWN, and its events begin with its first answer.
//   peer   calling -> established -> failed (peer_calling, peer_established, peer_failed). A
//          stranger's call raises no event before its session is established. Otherwise anybody
//          could fill the ring of events from outside.
//
// An operation may wait for a peer that is heard and yet make no progress. As long as that lasts,
// operation_stalled reports it once per peer_timeout.
//
// Events wait in a ring until they are polled. When the ring is full the oldest event goes, because
// the newest ones show the present state. EndpointStats::events_lost counts the lost events, and
// gaps in Event::number show where they were.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "hawser/status.hpp"
#include "hawser/types.hpp"

namespace hawser {

// X(name, text)
#define HAWSER_REASONS(X)                                                                        \
  X(none, "no reason")                                                                           \
  X(driver, "the driver of the NIC says so")                                                     \
  X(peer_said, "the peer says so of its NIC")                                                    \
  X(moved, "the address of a NIC has changed")                                                   \
  X(silence, "younger packets of other paths were acknowledged")                                 \
  X(requests, "what was sent on it was asked for again, round after round")                      \
  X(probe_timeouts, "probe timeouts in a row, while the peer was heard on other paths")          \
  X(only_small,                                                                                  \
    "packets of a fragment's size are lost, small ones pass: compare the MTUs of switches")      \
  X(unanswered, "probes were not answered")                                                      \
  X(answered, "a packet of the path was acknowledged")                                           \
  X(proven, "full-size probes were acknowledged in a row")                                       \
  X(asked, "an operation or connect asks for the session")                                       \
  X(handshake, "the handshake is through")                                                       \
  X(status, "the event's status says why")                                                       \
  X(witnesses, "its paths are dead, and those at their other ends are alive elsewhere")          \
  X(works_again, "packets pass again")                                                           \
  X(wider_verdict, "a verdict on one of the link's NICs explains it")                            \
  X(session_ended, "the session is over")                                                        \
  X(no_way, "the driver of the NIC finds no way to the other NIC")                               \
  X(awaits_path, "what is to be sent waits for a path that carries data")                        \
  X(awaits_answer, "the peer does not say what became of a message")                             \
  X(awaits_fragments, "the rest of a message does not come, however often it is asked for")      \
  X(awaits_message, "a message does not come, and later ones of its sender wait for it")         \
  X(no_place, "max_peers are in use, and none of their sessions has ended")                      \
  X(never_heard,                                                                                 \
    "no packet of the peer ever came here: look whether it runs, whether its address is of "     \
    "now, whether both have one job secret, and whether a firewall is between them")             \
  X(unheard,                                                                                     \
    "no packet of the peer came for peer_timeout: it has died or hangs, or no way leads "        \
    "here from it any more")                                                                     \
  X(one_way,                                                                                     \
    "the peer was heard, and yet answered nothing: packets come from it and none reaches "       \
    "it, so compare routes and firewalls of that direction")                                     \
  X(nics_down, "every NIC of this endpoint is down: look at its links (`ip link`, `rdma link`)") \
  X(stale_epoch,                                                                                 \
    "the peer has a session with another process of this endpoint's id, whose epoch is no "      \
    "lower: give each process an id of its own, and one that starts anew a higher epoch")

enum class Reason : std::uint8_t {
#define HAWSER_ENUM(name, text) name,
  HAWSER_REASONS(HAWSER_ENUM)
#undef HAWSER_ENUM
      count_
};

struct ReasonText {
  std::string_view name;
  std::string_view text;
};
inline constexpr std::array<ReasonText, static_cast<std::size_t>(Reason::count_)> kReasonTexts{{
#define HAWSER_TEXT(name, text) {#name, text},
    HAWSER_REASONS(HAWSER_TEXT)
#undef HAWSER_TEXT
}};

// X(name, text)
#define HAWSER_EVENTS(X)                                                                        \
  X(nic_down, "`nic` went away")                                                                \
  X(nic_up, "`nic` is back")                                                                    \
  X(path_down, "no packet passes on (`nic`, `remote_nic`) to `peer`")                           \
  X(path_up, "the path carries data again, or a bridge does from now on")                       \
  X(peer_established, "the session with `peer` is ready")                                       \
  X(peer_failed, "the session with `peer` is gone: `status` says why")                          \
  X(nic_moved, "`nic` has another address, which the peers are told")                           \
  X(path_suspect, "what was in flight on the path goes over other ones")                        \
  X(path_probing, "a path that was DOWN has answered, and is to prove itself")                  \
  X(peer_calling, "handshakes with `peer` begin")                                               \
  X(verdict_reached, "`blame` says who, for longer than a moment")                              \
  X(verdict_withdrawn, "the verdict stands no longer")                                          \
  X(operation_stalled,                                                                          \
    "`peer` is heard, yet for peer_timeout nothing that waits for it moved: `reason` says why") \
  X(peer_refused, "`endpoint_id` calls, and max_peers others are here; told once a second")

// The one to blame for paths that carry nothing.
enum class Blame : std::uint8_t {
  nobody,
  local_nic,   // `nic`
  remote_nic,  // `remote_nic` of `peer`
  link,        // the network between `nic` and `remote_nic` of `peer`
};
[[nodiscard]] constexpr std::string_view to_string(Blame blame) noexcept {
  switch (blame) {
    case Blame::nobody: return "nobody";
    case Blame::local_nic: return "local NIC";
    case Blame::remote_nic: return "remote NIC";
    case Blame::link: return "link";
  }
  return "?";
}

// An event; poll_events returns them in order.
struct Event {
  enum class Kind : std::uint8_t {
#define HAWSER_ENUM(name, text) name,
    HAWSER_EVENTS(HAWSER_ENUM)
#undef HAWSER_ENUM
        count_
  };
  Kind kind = Kind::nic_down;
  Reason reason = Reason::none;
  Status status = Status::ok;
  Blame blame = Blame::nobody;  // of verdicts
  PeerId peer = kAnyPeer;
  std::uint64_t endpoint_id = 0;  // the peer's
  std::uint8_t nic = 0;
  std::uint8_t remote_nic = 0;
  std::uint64_t time_ns = 0;
  std::uint64_t number = 0;  // from 0; a gap shows that events were lost
};

struct EventText {
  std::string_view name;
  std::string_view text;
};
inline constexpr std::array<EventText, static_cast<std::size_t>(Event::Kind::count_)> kEventTexts{{
#define HAWSER_TEXT(name, text) {#name, text},
    HAWSER_EVENTS(HAWSER_TEXT)
#undef HAWSER_TEXT
}};

// A verdict that stands. It only informs: the engine takes no action on it.
//
// Consider the matrix of local NICs (rows) and remote NICs (columns). A dead row is the fault of
// the local NIC, a dead column that of the remote NIC, and a single dead cell that of the link.
// To blame a NIC takes as witnesses two opposite NICs that are alive elsewhere. To blame a link
// takes both of its NICs alive elsewhere. A NIC whose driver, or whose peer, reports it down needs
// no witness. Nobody is blamed where two witnesses don't exist (one peer, and two NICs or fewer),
// or while a peer is not heard at all. A fault shorter than 100 ms raises no verdict.
struct Verdict {
  Blame blame = Blame::nobody;
  Reason reason = Reason::none;   // driver, peer_said, witnesses
  PeerId peer = kAnyPeer;         // remote_nic, link
  std::uint64_t endpoint_id = 0;  // the peer's
  std::uint8_t nic = 0;           // local_nic, link
  std::uint8_t remote_nic = 0;    // remote_nic, link
  std::uint64_t since_ns = 0;     // on the clock of Event::time_ns
};

}  // namespace hawser
