// SPDX-License-Identifier: Apache-2.0
// One-sided operations: the memory that an endpoint exposes, the keys to it, and the requests. The
// peer's program makes no call for them. hawser/engine.hpp has the calls.
//
//   target:    endpoint->expose({.data = memory, .bytes = n, .access = RegionAccess::write},
//                               region);
//              endpoint->region_key(region, key);          // and hand the key to the initiator
//   initiator: endpoint->write({.peer = target, .key = key, .data = data, .bytes = m}, operation);
//
// Each operation is executed exactly once while the session lives, whatever becomes of NICs and
// packets. If the session ends first, its completion says whether it was executed, was not, or may
// have been.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "hawser/types.hpp"

namespace hawser {

// The name of memory that this endpoint has exposed. It is valid until the memory is withdrawn, and
// is not used again within 2^32 regions.
enum class RegionId : std::uint64_t {};
inline constexpr RegionId kNoRegion{~std::uint64_t{0}};

// A region's key gives a peer these rights. Any of them can be combined.
enum class RegionAccess : std::uint8_t { none = 0, write = 1, read = 2, atomic = 4, all = 7 };
[[nodiscard]] constexpr RegionAccess operator|(RegionAccess a, RegionAccess b) noexcept {
  return static_cast<RegionAccess>(static_cast<std::uint8_t>(a) | static_cast<std::uint8_t>(b));
}
// Whether `rights` has all of `wanted`.
[[nodiscard]] constexpr bool allows(RegionAccess rights, RegionAccess wanted) noexcept {
  const auto bits = static_cast<std::uint8_t>(wanted);
  return (static_cast<std::uint8_t>(rights) & bits) == bits;
}

// Memory to expose. The processor must be able to read and write it: not a device's memory.
struct ExposeRequest {
  void* data = nullptr;
  std::uint64_t bytes = 0;  // 1 to kMaxMessageBytes
  RegionAccess access = RegionAccess::none;
  std::uint64_t user_data = 0;  // returned in notices about this region
};

// The writes to a region that failed sessions have left unfinished.
struct RegionStats {
  std::uint64_t unfinished_writes = 0;  // begun, with some bytes placed, and never to be finished
  std::uint64_t unfinished_from = 0;    // their bytes lie from here,
  std::uint64_t unfinished_to = 0;      // to before this offset
};

// A key lets a peer reach a region. It has 32 bytes, in the byte order of all hosts that Hawser
// runs on; pass it by any means. Whoever has it has the region's rights. Only `bytes`, the length
// of the region, means something to others than the endpoint that made it.
struct RegionKey {
  std::uint32_t region = 0;
  std::uint32_t generation = 0;
  std::uint64_t secret = 0;
  std::uint64_t bytes = 0;
  std::uint64_t process = 0;

  friend bool operator==(const RegionKey&, const RegionKey&) = default;
};
static_assert(sizeof(RegionKey) == 32);

// An atomic computes on the word in memory by one of these. Sums wrap around.
enum class AtomicOperation : std::uint8_t {
  load = 0,
  store = 1,             // the operand
  swap = 2,              // as store
  compare_and_swap = 3,  // the operand, if the word equals `compare`
  add = 4,
  bit_and = 5,
  bit_or = 6,
  bit_xor = 7,
  min_signed = 8,
  max_signed = 9,
  min_unsigned = 10,
  max_unsigned = 11,
};

// An atomic operation on one word. The word is naturally aligned in the target's memory.
struct WordOperation {
  AtomicOperation operation = AtomicOperation::load;
  std::uint8_t width = 8;  // bytes: 4 or 8. Upper bytes of narrow operands mean nothing.
  std::uint64_t operand = 0;
  std::uint64_t compare = 0;  // of compare_and_swap
};

// A word of the target that changes once a write is placed.
struct Signal {
  RegionKey key{};  // of the process that the write's key names; the right `atomic`
  std::uint64_t offset = 0;
  WordOperation word{};  // add or store
};

// The requests. A `strong` operation is executed after all one-sided operations that were posted
// before it to its peer on its channel have been; a weak one waits for nothing. Messages are no
// part of that order.

// Copies bytes into a region.
struct WriteRequest {
  PeerId peer = kAnyPeer;  // never kAnyPeer
  std::uint16_t channel = 0;
  RegionKey key{};
  std::uint64_t offset = 0;    // in the region
  const void* data = nullptr;  // may be null if bytes = 0
  std::uint64_t bytes = 0;
  std::optional<Signal> signal{};
  bool notifies = false;  // the target's program gets a completion of kind `notice`
  bool strong = false;
  std::uint64_t immediate = 0;  // of the notice
  std::uint64_t user_data = 0;  // returned in this side's completion, not sent
  ChannelOwner owner = ChannelOwner::application;
};

// Copies bytes out of a region.
struct ReadRequest {
  PeerId peer = kAnyPeer;  // never kAnyPeer
  std::uint16_t channel = 0;
  RegionKey key{};
  std::uint64_t offset = 0;
  void* data = nullptr;  // may be null if bytes = 0
  std::uint64_t bytes = 0;
  bool strong = false;
  std::uint64_t user_data = 0;
  ChannelOwner owner = ChannelOwner::application;
};

// Computes on one word of a region. A signal without a write is an atomic that fetches nothing.
struct AtomicRequest {
  PeerId peer = kAnyPeer;  // never kAnyPeer
  std::uint16_t channel = 0;
  RegionKey key{};
  std::uint64_t offset = 0;
  WordOperation word{};
  bool fetches = false;  // the completion's `immediate` is the word as it was before
  bool strong = false;
  std::uint64_t user_data = 0;
  ChannelOwner owner = ChannelOwner::application;
};

// Waits for all one-sided operations that were posted before to the peer on the channel.
struct FlushRequest {
  PeerId peer = kAnyPeer;  // never kAnyPeer
  std::uint16_t channel = 0;
  std::uint64_t user_data = 0;
  ChannelOwner owner = ChannelOwner::application;
};

}  // namespace hawser
