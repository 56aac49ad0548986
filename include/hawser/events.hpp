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
// operation_stalled reports one such operation of the peer once per peer_timeout.
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
#define HAWSER_REASONS(X)                                                                          \
  X(none, "no reason")                                                                             \
  X(driver, "the NIC's driver reported it")                                                        \
  X(peer_said, "the peer reported it for its own NIC")                                             \
  X(moved, "the address of a NIC has changed")                                                     \
  X(silence, "the path is silent, while later packets on other paths were acknowledged")           \
  X(requests, "the peer requested the path's fragments again in several rounds in a row")          \
  X(probe_timeouts,                                                                                \
    "several probe timeouts in a row expired, while the peer was heard on other paths")            \
  X(only_small,                                                                                    \
    "full-size packets are lost, while small ones pass: compare the MTUs of the switches")         \
  X(unanswered, "the path's probes were not answered")                                             \
  X(answered, "a packet of the path was acknowledged")                                             \
  X(proven, "several full-size probes in a row were acknowledged")                                 \
  X(asked, "an operation or a connect needs the session")                                          \
  X(handshake, "the handshake has completed")                                                      \
  X(status, "the event's status gives the reason")                                                 \
  X(witnesses, "its paths are dead, while the NICs at their other ends work on other paths")       \
  X(works_again, "packets pass again")                                                             \
  X(wider_verdict, "a verdict on one of the link's NICs explains it")                              \
  X(session_ended, "the session has ended")                                                        \
  X(no_way, "the NIC's driver finds no route to the remote NIC")                                   \
  X(awaits_path, "data to send waits for a path that carries data")                                \
  X(awaits_answer, "the peer does not report the status of a message")                             \
  X(awaits_fragments,                                                                              \
    "the missing fragments of a message do not arrive, although they were requested repeatedly")   \
  X(awaits_message, "a message does not arrive, and later messages of its sender wait for it")     \
  X(no_place,                                                                                      \
    "all max_peers places are in use: their peers live, or have left messages to receive")         \
  X(never_heard,                                                                                   \
    "no packet from the peer ever arrived: check that it runs, that its address is current, that " \
    "both ends have the same job secret, and that no firewall is between them")                    \
  X(unheard,                                                                                       \
    "no packet from the peer arrived for peer_timeout: it has died or hangs, or its packets no "   \
    "longer reach this host")                                                                      \
  X(one_way,                                                                                       \
    "packets from the peer arrive, but it answers none of ours: check routes and firewalls in "    \
    "the direction to the peer")                                                                   \
  X(nics_down, "every NIC of this endpoint is down: check its links (`ip link`, `rdma link`)")     \
  X(stale_epoch,                                                                                   \
    "the peer has a session with another process that has this endpoint's id and no lower epoch: " \
    "give each process its own id, and a restarted process a higher epoch")                        \
  X(gave_up,                                                                                       \
    "the peer lives, but has given up this session: most likely it did not hear this endpoint "    \
    "for its peer_timeout")

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
#define HAWSER_EVENTS(X)                                                                      \
  X(nic_down, "`nic` went down")                                                              \
  X(nic_up, "`nic` is up again")                                                              \
  X(path_down, "no packet passes on (`nic`, `remote_nic`) to `peer`")                         \
  X(path_up, "the path, or a bridge, carries data from now on")                               \
  X(peer_established, "the session with `peer` is ready")                                     \
  X(peer_failed, "the session with `peer` failed: `status` gives the reason")                 \
  X(nic_moved, "`nic` has a new address, which the endpoint announces to its peers")          \
  X(path_suspect, "the path is SUSPECT: its packets in flight are sent again on other paths") \
  X(path_probing, "a path that was DOWN has answered, and must now prove itself")             \
  X(peer_calling, "handshakes with `peer` begin")                                             \
  X(verdict_reached, "a verdict stands: `blame` names the faulty NIC or link")                \
  X(verdict_withdrawn, "the verdict no longer stands")                                        \
  X(operation_stalled,                                                                        \
    "`peer` is heard, but an operation with it made no progress for peer_timeout: `reason` "  \
    "gives the cause")                                                                        \
  X(peer_refused,                                                                             \
    "a call of `endpoint_id` was refused: all max_peers places are in use; reported once a "  \
    "second at most")

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
