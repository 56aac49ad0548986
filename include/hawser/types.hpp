// SPDX-License-Identifier: Apache-2.0
// The types of the public API: peers, requests, hints, completions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hawser/status.hpp"

namespace hawser {

// Names a peer at the endpoint that returned it. Its low 16 bits are the peer's place there. Places
// are small and dense: peer_place() can index an array of max_peers. The endpoint gives a place to
// another peer when it needs one, the session has ended, and no message of it is left to receive.
// The earlier peer's name is then unknown. It is reused after 65535 other peers at that place.
enum class PeerId : std::uint32_t {};
inline constexpr PeerId kAnyPeer{0xffffffffu};

// The peer's place, below max_peers. Not for kAnyPeer.
[[nodiscard]] constexpr std::uint32_t peer_place(PeerId peer) {
  return static_cast<std::uint32_t>(peer) & 0xffffu;
}

// Names an operation at its endpoint, from the call that accepted it until its completion is
// polled. Never reused within 2^32 operations.
enum class OperationId : std::uint64_t {};
inline constexpr OperationId kNoOperation{~std::uint64_t{0}};

// Names a claimed message at the endpoint that claimed it, until it is received or put back. Never
// reused within 2^32 messages.
enum class MessageId : std::uint64_t {};
inline constexpr MessageId kNoMessage{~std::uint64_t{0}};

// Names a registration of memory at the endpoint that made it, until it is deregistered. Never
// reused within 2^32 registrations.
enum class RegistrationId : std::uint64_t {};
inline constexpr RegistrationId kNoRegistration{~std::uint64_t{0}};

// A part of another device's memory, given as a dma-buf.
struct DmabufRange {
  int fd = -1;                    // read during the call; stays the caller's
  std::uint64_t offset = 0;       // where in the dma-buf it begins
  std::uint64_t bytes = 0;        // more than 0
  const void* address = nullptr;  // the name that sends use; the processor reads nothing there
};

// Longest message, in bytes.
inline constexpr std::uint64_t kMaxMessageBytes = (std::uint64_t{1} << 40) - 1;

// A channel is a 16-bit number that separates the traffic of the parts of a program, as an MPI
// communicator does. A message matches only receives of its own channel. Each owner has a range of
// channels. A call that names a channel outside its owner's range answers `invalid_argument`, so
// that an application can't take a collective's messages by mistake.
enum class ChannelOwner : std::uint8_t {
  application,  // 0 to 0x7fff
  collectives,  // 0x8000 to 0xbfff: the collective library
  adapter,      // 0xc000 to 0xffff: libfabric, NCCL
};
inline constexpr std::uint16_t kCollectiveChannel = 0x8000;
inline constexpr std::uint16_t kAdapterChannel = 0xc000;
[[nodiscard]] constexpr ChannelOwner owner_of(std::uint16_t channel) noexcept {
  if (channel < kCollectiveChannel) return ChannelOwner::application;
  return channel < kAdapterChannel ? ChannelOwner::collectives : ChannelOwner::adapter;
}

// For `ignore` of a request: any tag matches.
inline constexpr std::uint64_t kAnyTag = ~std::uint64_t{0};

// The event that completes a send.
enum class Level : std::uint8_t {
  accepted,   // all bytes are in the receiver's memory; a receive need not be posted yet
  delivered,  // matched and placed in the receive's buffer (a synchronous send)
};

enum class Collective : std::uint8_t {
  none,
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  broadcast,
  barrier,
};

// The caller's knowledge of the traffic pattern. It shapes loss-detection timers and priorities,
// and never changes what is delivered. All zero: nothing is known.
struct Hint {
  std::uint32_t group = 0;    // the messages with this number (per sender and receiver) make up one
                              // step that is complete only when all of them are; 0 = no group
  std::uint16_t members = 0;  // how many messages the receiver awaits in that group; more than 4
                              // share the bytes that they may send before a grant
  std::uint16_t step = 0;     // this step's index, from 0
  std::uint16_t steps = 0;    // steps in all
  Collective collective = Collective::none;
  std::uint8_t priority = 0;  // higher goes first among messages to one peer; 0 is ordinary
};

// A message may lie in several places: in up to kMostPieces pieces, which make it up in the order
// of the list. Pieces of 0 bytes are allowed. All must be memory that the processor can access, and
// no dma-buf. The call copies the list, so only the pieces themselves must stay until the operation
// has completed.
struct SendPiece {
  const void* data = nullptr;  // may be null if bytes = 0
  std::uint64_t bytes = 0;
};
struct ReceivePiece {
  void* data = nullptr;  // may be null if bytes = 0
  std::uint64_t bytes = 0;
};
inline constexpr std::size_t kMostPieces = 8;

// A message to send.
//
//   endpoint->send({.peer = peer, .channel = 1, .tag = 42, .data = data, .bytes = n}, operation);
struct SendRequest {
  PeerId peer = kAnyPeer;  // the receiver: never kAnyPeer
  std::uint16_t channel = 0;
  std::uint64_t tag = 0;
  const void* data = nullptr;  // may be null if bytes = 0
  std::uint64_t bytes = 0;     // at most kMaxMessageBytes
  Level level = Level::accepted;
  std::uint64_t immediate = 0;  // 64 bits that travel with the message to the receive's completion
  std::uint64_t user_data = 0;  // returned in this side's completion, not sent
  Hint hint{};
  ChannelOwner owner = ChannelOwner::application;
  std::span<const SendPiece> pieces{};  // instead of `data` and `bytes`, which then must be 0
};

// A buffer for one message: the oldest one that comes from `peer`, has this channel, and agrees
// with `tag` in every bit that `ignore` does not set.
struct ReceiveRequest {
  PeerId peer = kAnyPeer;  // kAnyPeer: from anybody
  std::uint16_t channel = 0;
  std::uint64_t tag = 0;
  std::uint64_t ignore = 0;     // 0: the whole tag counts; kAnyTag: no bit of it does
  void* data = nullptr;         // may be null if bytes = 0
  std::uint64_t bytes = 0;      // a longer message is truncated
  std::uint64_t user_data = 0;  // returned in the completion
  Hint hint{};                  // used where the message itself carries none
  ChannelOwner owner = ChannelOwner::application;
  std::span<const ReceivePiece> pieces{};  // instead of `data` and `bytes`, which then must be 0
};

// `probe` and `claim` look for a message by these fields. They mean the same as in ReceiveRequest.
struct ProbeRequest {
  PeerId peer = kAnyPeer;
  std::uint16_t channel = 0;
  std::uint64_t tag = 0;
  std::uint64_t ignore = 0;
  ChannelOwner owner = ChannelOwner::application;
};

// The buffer for a claimed message, with the fields' meaning as in ReceiveRequest.
struct ClaimedRequest {
  void* data = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t user_data = 0;
  Hint hint{};
  std::span<const ReceivePiece> pieces{};
};

enum class OperationKind : std::uint8_t {
  send,
  receive,
  // One-sided (hawser/one_sided.hpp).
  write,
  read,
  atomic,
  flush,
  withdraw,
  notice,  // no operation: a peer's write was placed in a region of this endpoint, and tells so
};

// A completion says what became of an operation. In a notice `operation` is kNoOperation,
// `user_data` is that of the region, `tag` is the offset in the region, and `bytes`, `channel` and
// `immediate` are the write's. If a notice's `status` is not ok, the write's session has ended with
// that status, and only a part of the bytes was placed. Such a notice also comes of a write that
// doesn't ask for one.

struct Completion {
  OperationId operation = kNoOperation;
  std::uint64_t user_data = 0;
  OperationKind kind = OperationKind::send;
  Status status = Status::ok;
  std::uint16_t channel = 0;
  // The caller owns the buffer again. False only for a send that failed while a NIC still holds its
  // bytes: the status is final, but the bytes must not change yet. A second completion of the
  // operation, equal but for this field, then returns them. A send that ended well (or was
  // cancelled) has one completion, which comes when both are true.
  bool released = true;
  // True: this send or one-sided operation failed with its session and may have arrived, or a part
  // of it. False: it surely has not arrived (not all of it had left), or its status or `executed`
  // says what became of it.
  bool outcome_unknown = false;
  // True: this one-sided operation was executed. If its status is a failure of the session, only
  // what it would have fetched is lost.
  bool executed = false;
  PeerId peer = kAnyPeer;  // of a wildcard receive that ended unmatched: kAnyPeer
  std::uint64_t tag = 0;   // the message's own tag
  // A receive or read says how many bytes were placed in its buffer. If it failed, and was not
  // `truncated`, that is 0, though a part of the buffer may be written. Every other operation says
  // the bytes of its request.
  std::uint64_t bytes = 0;
  std::uint64_t message_bytes = 0;  // the message's length at its sender
  std::uint64_t immediate = 0;      // the sender's; of an atomic that fetches, the word before
};

// The result of `probe`: the oldest unmatched message that matches the arguments.
struct Envelope {
  PeerId peer = kAnyPeer;
  std::uint64_t tag = 0;
  std::uint64_t bytes = 0;
  std::uint64_t immediate = 0;
};

// An endpoint's address: an opaque blob of at most 2048 bytes. Pass it to others by any means (a
// file, a rendezvous, MPI). It names the endpoint, its NICs and its incarnation.
using Address = std::vector<std::byte>;

}  // namespace hawser
