// SPDX-License-Identifier: Apache-2.0
// A hook that sees every packet, message and change of state of an endpoint as it happens.
//
// The endpoint calls the hook on the thread that makes its progress, in the middle of the
// protocol's work. With inline progress that is the caller's own thread, also during send, receive
// and so on. The hook may look at the record, copy it to memory of its own, and count. It must not
// call into the library, throw, or wait for anything: the time it takes delays the answer to every
// peer. The record is valid until the hook returns. Calls for one endpoint never overlap. Endpoints
// that share a hook may call it at once, on several threads.
//
// Without a hook, each place that would call it costs one well-predicted branch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace hawser {

// X(name, what happened; what `cause` and `detail` are, if anything)
#define HAWSER_TRACE_KINDS(X)                                                                      \
  X(packet_sent, "a fragment left for the first time")                                             \
  X(packet_retransmitted, "a fragment left once more")                                             \
  X(packet_received, "a packet with a path number came, for the first time")                       \
  X(packet_dropped, "a packet, or a part of it, was dropped; cause: DropReason")                   \
  X(packet_acknowledged, "a packet in flight has arrived; detail: microseconds since it left")     \
  X(packet_lost, "a packet in flight was declared lost; cause: TraceLoss")                         \
  X(packet_late, "a packet declared lost has arrived after all")                                   \
  X(request_sent, "asked for fragments; fragment: the first one; cause: 1 for an unknown message") \
  X(request_received, "was asked for fragments; fragment: as above")                               \
  X(grant_given, "a grant left; fragment: the first missing; detail: fragments below may come")    \
  X(grant_received, "a grant came; fragment and detail: as above")                                 \
  X(pto, "a probe timeout; detail: how many in a row")                                             \
  X(path_probe, "a probe of a path left; cause: 1 for one of a fragment's size")                   \
  X(message_probe, "an envelope left, to ask for a status")                                        \
  X(path_state, "a path changed; cause: Reason; detail: PathState")                                \
  X(session_state, "a session changed; cause: Status if it failed; detail: TraceSession")          \
  X(message_begun, "a send was taken; its operation, number, bytes")                               \
  X(message_status, "the receiver said what became of a message; cause: TraceStatus")              \
  X(send_completed, "cause: Status; detail: 1 if the bytes are released")                          \
  X(receive_completed, "cause: Status; the message's number, if one had matched")

enum class TraceKind : std::uint8_t {
#define HAWSER_ENUM(name, text) name,
  HAWSER_TRACE_KINDS(HAWSER_ENUM)
#undef HAWSER_ENUM
      count_
};
inline constexpr std::size_t kTraceKinds = static_cast<std::size_t>(TraceKind::count_);

struct TraceKindText {
  std::string_view name;
  std::string_view text;
};
inline constexpr std::array<TraceKindText, kTraceKinds> kTraceKindTexts{{
#define HAWSER_TEXT(name, text) {#name, text},
    HAWSER_TRACE_KINDS(HAWSER_TEXT)
#undef HAWSER_TEXT
}};

// The rule that declared a packet lost.
enum class TraceLoss : std::uint8_t {
  gap = 1,     // later packets of its path arrived
  request,     // the receiver asked for it
  evacuation,  // its path is silent, dead or gone
};
enum class TraceSession : std::uint8_t { idle, calling, answered, ready, failed };
// Statuses with the values that they have on the wire.
enum class TraceStatus : std::uint8_t {
  accepted = 1,
  no_room,
  delivered,
  truncated,
  cancelled,
  pending,
  matched,
  access_denied,  // this and the next are of one-sided operations alone
  region_withdrawn,
  misaligned,
  unsupported,
};

// Returns the name of a record's cause, or "" if its kind has none. The string is static.
[[nodiscard]] std::string_view trace_cause_name(TraceKind kind, std::uint8_t cause) noexcept;

inline constexpr std::uint64_t kNoTraceNumber = ~std::uint64_t{0};
inline constexpr std::uint32_t kNoTraceIndex = 0xffffffffu;
inline constexpr std::uint8_t kNoTraceNic = 0xff;

// One record. Fields that don't apply have the values above; cause and detail are then 0.
struct TraceRecord {
  std::uint64_t time_ns = 0;                   // the clock of Event::time_ns
  std::uint64_t endpoint_id = 0;               // the peer's; 0: unknown
  std::uint64_t operation = kNoTraceNumber;    // OperationId
  std::uint64_t message = kNoTraceNumber;      // its number, from its sender to its receiver
  std::uint64_t path_number = kNoTraceNumber;  // of a packet
  std::uint32_t peer = kNoTraceIndex;          // the peer's place
  std::uint32_t fragment = kNoTraceIndex;
  std::uint32_t bytes =
      0;  // of packets: payload, 0 if messages share it; of messages: all, cut to 32 bits
  std::uint32_t detail = 0;
  TraceKind kind = TraceKind::packet_sent;
  std::uint8_t cause = 0;
  std::uint8_t nic = kNoTraceNic;
  std::uint8_t remote_nic = kNoTraceNic;
  std::uint8_t slot = kNoTraceNic;  // of the path, at its sender
  std::uint8_t generation = 0;
  std::uint8_t more = 0;  // of packets: messages in it after `message`
  std::uint8_t reserved = 0;
};
static_assert(sizeof(TraceRecord) == 64 && std::is_trivially_copyable_v<TraceRecord>);

using TraceHook = void (*)(void* context, const TraceRecord& record);

}  // namespace hawser
