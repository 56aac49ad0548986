// SPDX-License-Identifier: Apache-2.0
// Statuses that calls and completions return. Each states who owns the arguments afterwards.
#pragma once

#include <cstdint>
#include <string_view>

namespace hawser {

enum class Status : std::uint8_t {
  // The call was accepted, or the operation ended as asked.
  ok = 0,
  // A limit is reached, or nothing is there yet. Nothing was taken: the caller still owns every
  // buffer. Poll, then call again.
  again,
  // An argument is out of range. Nothing was taken.
  invalid_argument,
  // No such peer: it was never connected, or its session has ended and its place belongs to another
  // peer. Nothing was taken.
  unknown_peer,
  // No such operation: it has completed already, or never existed. Nothing changed.
  unknown_operation,
  // The cancel came too late: the operation is matched and ends with its own completion.
  too_late,
  // Completion of a receive: the message was longer than the buffer. All bytes of the buffer are
  // written. Completion of a send at level `delivered`: the receiver truncated the message.
  truncated,
  // Completion: the operation was cancelled. A receive's buffer was not written. No byte of a send
  // is delivered, now or later.
  cancelled,
  // Completion: the handshake did not finish within peer_timeout. No byte was delivered.
  peer_unreachable,
  // Completion: no path answered for peer_timeout, or the peer has given up the session because it
  // heard nothing of this end. Here and in the statuses below, a send may have arrived if
  // Completion::outcome_unknown is set; otherwise it surely has not.
  peer_timeout,
  // Completion: the peer came back as a new incarnation.
  peer_restarted,
  // Completion: the peer closed its endpoint.
  peer_closed,
  // The endpoint is closing, or has disconnected that peer.
  endpoint_closed,
  // This build, NIC or session does not offer what was asked. Nothing was taken.
  unsupported,
  // The operating system or the NIC refused; the log has its error text. Nothing was taken.
  nic_error,
  // Completion of a receive: the store of unmatched messages (max_receive_messages) has been full
  // for peer_timeout. Meanwhile it turned away messages that this receive may wait for. The buffer
  // was not written. Receive the stored messages (probe finds them), or raise the limit.
  store_full,
  // A NIC still reads from the memory, because sends from it have not ended. The registration
  // stands. Poll until they have completed, then call again.
  in_use,
  // The memory shares bytes with a registration that stands. Nothing was taken. Use that
  // registration, or deregister it first.
  overlapping,
  // More bytes than a NIC can register at once. Nothing was taken. Register them in parts.
  too_large,
  // The operating system locks no more memory for this process. Nothing was taken. Raise the limit
  // (`ulimit -l`, or memlock in /etc/security/limits.conf), or deregister something.
  lock_limit,
  // No NIC of this endpoint can send to any NIC that the address names: they differ in kind, IP
  // version or fabric. Nothing was taken. Compare the NICs of both ends (describe_address).
  no_route,
  // Completion: the peer has answered for 5/4 of peer_timeout that all of its max_peers are in use.
  // They are in use by live peers, or by peers whose messages it has not received. No byte was
  // delivered. Raise max_peers there, let it receive waiting messages and disconnect unneeded
  // peers, or call again later.
  peer_full,
  // Completion of a one-sided operation: the key is wrong, does not give that right, or the range
  // is not within the region. Nothing was touched, unless it is the signal of a write longer than a
  // packet: then `outcome_unknown` is true, and the bytes are placed.
  access_denied,
  // The key's region belongs to another process than the one that is connected: its owner has
  // restarted. Nothing was touched. Get a new key.
  stale_region,
  // Completion of a one-sided operation: the region was withdrawn while it was under way. Some
  // bytes of a write may have been placed.
  region_withdrawn,
  // Completion of an atomic or a signal: the word is not naturally aligned in the target's memory.
  // Nothing was done, with the same exception.
  misaligned,
  // Completion of a strong operation: one before it on its channel has failed. Nothing was sent.
  predecessor_failed,
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
    case Status::access_denied: return "access_denied";
    case Status::stale_region: return "stale_region";
    case Status::region_withdrawn: return "region_withdrawn";
    case Status::misaligned: return "misaligned";
    case Status::predecessor_failed: return "predecessor_failed";
  }
  return "?";
}

// True for the statuses that mean that the session with the peer is gone.
[[nodiscard]] constexpr bool is_peer_failure(Status status) noexcept {
  return status == Status::peer_unreachable || status == Status::peer_timeout ||
         status == Status::peer_restarted || status == Status::peer_closed ||
         status == Status::peer_full;
}

}  // namespace hawser
