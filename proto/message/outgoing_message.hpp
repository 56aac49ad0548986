// SPDX-License-Identifier: Apache-2.0
// A message that this endpoint sends. Plain data: the rules live in send.cpp and transmitter.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hawser/status.hpp"
#include "hawser/types.hpp"
#include "proto/base/list.hpp"
#include "proto/base/pieces.hpp"
#include "proto/base/slab.hpp"
#include "proto/base/time.hpp"
#include "proto/base/timer.hpp"
#include "proto/options.hpp"

namespace hawser::proto {

// How far the caller's wish to cancel a send has come.
enum class Cancel : std::uint8_t {
  none,
  asked,    // nothing new is sent, its envelopes ask to cancel; the receiver decides
  refused,  // it was matched first, so it goes on
};

// A message, or an operation on the peer's memory, or what the peer has fetched.
// `signal`: that of a write that it didn't fit into. It goes as an atomic, once the write is
// placed.
enum class SendKind : std::uint8_t { message, write, read, atomic, reply, flush, signal };

[[nodiscard]] inline OperationKind operation_kind(SendKind kind) {
  switch (kind) {
    case SendKind::write:
    case SendKind::signal: return OperationKind::write;
    case SendKind::read: return OperationKind::read;
    case SendKind::atomic: return OperationKind::atomic;
    case SendKind::flush: return OperationKind::flush;
    default: return OperationKind::send;
  }
}

// Whether the status fails everything that is pending with the peer.
[[nodiscard]] constexpr bool ends_session(Status status) {
  return is_peer_failure(status) || status == Status::endpoint_closed;
}

// A part of a message's bytes.
struct FragmentExtent {
  std::uint64_t begin = 0;
  std::size_t bytes = 0;
};

struct OutgoingMessage {
  OperationId operation = kNoOperation;
  std::uint32_t peer = kNoIndex;
  std::uint32_t moved = 0;  // coarse: when it last made progress, or was answered
  std::uint64_t number = 0;
  union {
    const std::byte* data = nullptr;
    GatherList* pieces;  // if `gathered`
  };
  std::uint64_t bytes = 0;
  std::uint64_t tag = 0;
  std::uint16_t channel = 0;
  std::uint8_t size_class = 0;
  std::uint16_t fragment_bytes = 0;  // of that class
  SendOptions options{};

  std::uint32_t fragments = 1;      // an empty message has one
  std::uint32_t next_fragment = 0;  // those from here on are to be sent; send.cpp has the invariant
  std::uint32_t sent_before = 0;    // next_fragment as it was before it was set back
  std::uint32_t may_send = 0;       // fragments below it may be sent
  std::uint32_t rx_slot = kNoIndex;  // named by the grant
  std::uint32_t rx_generation = 0;
  std::uint32_t in_flight = 0;  // packets not yet acknowledged nor lost
  std::uint32_t queued = 0;     // entries in the retransmit queue
  std::uint32_t unreaped = 0;   // sends that a NIC may still read from
  bool granted = false;
  bool readable = true;   // by the processor, and not only by a device
  bool stopped = false;   // NO_ROOM: waits for a grant
  bool held = false;      // a strong operation whose turn has not come: it has no number yet
  bool finished = false;  // has its final status; lives on until the NICs release it
  Cancel cancel = Cancel::none;
  SendKind kind = SendKind::message;
  Status result = Status::ok;
  std::uint32_t one_sided = kNoIndex;  // its OneSidedSend, unless it is a message

  Timer ask_timer;  // when to ask for the status
  Duration ask_interval{};
  std::uint8_t asked = 0;  // how often without an answer since, up to 255
  bool gathered = false;   // from the pieces of the send's list
  ListLink send_link;      // on the peer's list of messages with fragments to send
};

// The part of a message that a fragment carries.
[[nodiscard]] inline FragmentExtent extent_of(const OutgoingMessage& message,
                                              std::uint32_t fragment) {
  const std::uint64_t begin = std::uint64_t{fragment} * message.fragment_bytes;
  if (begin >= message.bytes) return {};
  const std::uint64_t left = message.bytes - begin;
  return {begin,
          static_cast<std::size_t>(left < message.fragment_bytes ? left : message.fragment_bytes)};
}

// A fragment that waits for retransmission.
struct Retransmit {
  SlabId message;
  std::uint32_t fragment = 0;
  bool was_sent = true;  // false: the NIC that was to take it refused it, and took later ones
  ListLink link;
};

}  // namespace hawser::proto
