// SPDX-License-Identifier: Apache-2.0
// What a call or a completion can say. Every value states who owns the arguments afterwards.
#pragma once

#include <cstdint>
#include <string_view>

namespace hawser {

enum class Status : std::uint8_t {
  // The call was taken, or the operation ended as asked.
  ok = 0,
  // A limit is reached or nothing is there yet. Nothing was taken: every buffer is still the
  // caller's. Poll, then call again.
  again,
  // An argument is out of range. Nothing was taken.
  invalid_argument,
  // No such peer: it was never connected, or its session has ended, and its place was given to
  // another. Nothing was taken.
  unknown_peer,
  // No such operation: it has completed already, or never was. Nothing changed.
  unknown_operation,
  // Cancel came too late: the operation is matched and ends by its own completion.
  too_late,
  // Completion of a receive: the message was longer than the buffer, whose bytes are all written.
  // Completion of a send at level `delivered`: the same, seen from the other side.
  truncated,
  // Completion: the operation was cancelled. A receive's buffer was not written; of a send nothing
  // is delivered, now or later.
  cancelled,
  // Completion: the handshake did not finish within peer_timeout. No byte was delivered.
  peer_unreachable,
  // Completion: no path answered for peer_timeout. Whether a send arrived is unknown, here and
  // below, if Completion::outcome_unknown says so; else it has surely not.
  peer_timeout,
  // Completion: the peer came back as a new incarnation.
  peer_restarted,
  // Completion: the peer closed its endpoint.
  peer_closed,
  // The endpoint is closing, or has disconnected that peer.
  endpoint_closed,
  // This build, NIC or session does not offer what was asked. Nothing was taken.
  unsupported,
  // The operating system or the NIC refused; the log has its words. Nothing was taken.
  nic_error,
  // Completion of a receive: for peer_timeout the store of messages without a receive has been full
  // (max_receive_messages) while messages that this receive may wait for were turned away. The
  // buffer was not written. Receive what lies there (probe tells), or raise the limit.
  store_full,
  // A NIC still reads from the memory: sends from it have not ended. Its registration stands; poll
  // until they have completed, then call again.
  in_use,
  // The memory shares bytes with a registration that stands. Nothing was taken: use that one, or
  // deregister it first.
  overlapping,
  // More bytes than a NIC can register at once. Nothing was taken: register it in parts.
  too_large,
  // The operating system locks no more memory for this process. Nothing was taken: raise the limit
  // (`ulimit -l`, or memlock in /etc/security/limits.conf), or deregister something.
  lock_limit,
  // No NIC of this endpoint can send to any NIC that the address names: they differ in kind, IP
  // version or fabric. Nothing was taken: compare both ends' NICs (describe_address).
  no_route,
  // Completion: the peer has answered, for 5/4 of peer_timeout, that it has no place for another
  // one: its max_peers are taken by peers that live or whose messages it has not received. No byte
  // was delivered. Raise max_peers there, have it receive what waits and disconnect those that it
  // needs no more, or call again later.
  peer_full,
};

// The name as written above, for messages and logs.
[[nodiscard]] constexpr std::string_view to_string(Status status) noexcept {
  switch (status) {
    case Status::ok: return "ok";
    case Status::again: return "again";
    case Status::invalid_argument: return "invalid_argument";
    case Status::unknown_peer: return "unknown_peer";
    case Status::unknown_operation: return "unknown_operation";
    case Status::too_late: return "too_late";
    case Status::truncated: return "truncated";
    case Status::cancelled: return "cancelled";
    case Status::peer_unreachable: return "peer_unreachable";
    case Status::peer_timeout: return "peer_timeout";
    case Status::peer_restarted: return "peer_restarted";
    case Status::peer_closed: return "peer_closed";
    case Status::endpoint_closed: return "endpoint_closed";
    case Status::unsupported: return "unsupported";
    case Status::nic_error: return "nic_error";
    case Status::store_full: return "store_full";
    case Status::in_use: return "in_use";
    case Status::overlapping: return "overlapping";
    case Status::too_large: return "too_large";
    case Status::lock_limit: return "lock_limit";
    case Status::no_route: return "no_route";
    case Status::peer_full: return "peer_full";
  }
  return "?";
}

// True for the statuses that mean that the session to the peer is gone.
[[nodiscard]] constexpr bool is_peer_failure(Status status) noexcept {
  return status == Status::peer_unreachable || status == Status::peer_timeout ||
         status == Status::peer_restarted || status == Status::peer_closed ||
         status == Status::peer_full;
}

}  // namespace hawser
