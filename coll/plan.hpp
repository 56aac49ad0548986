// SPDX-License-Identifier: Apache-2.0
// A plan: one collective of one rank as pure arithmetic.
//
// It lists the messages to send and to receive, each list numbered from 0, and states the
// dependencies of every entry. Nothing is stored per message, so plans are small and their size
// does not grow with the data.
//
// A plan has one or more *streams*, each with both lists and a window of its own. An entry's index
// has the number of its stream in its upper bits, so an entry may depend on one of another stream.
//
// Execution relies on an invariant. Order all entries of all ranks by the earliest time at which
// they could run. In this order every dependency points backwards, as does that of a receive on its
// send. Within a list, numbers increase in this order.
//
// To add an algorithm: derive from Plan, keep it free of heap, add it to Execution's variant, and
// to the property test of plans.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "coll/layout.hpp"
#include "hawser/types.hpp"

namespace hawser::coll {

inline constexpr std::uint64_t kNothing = ~std::uint64_t{0};

inline constexpr std::uint32_t kMostStreams = 12;
inline constexpr unsigned kStreamShift = 56;

[[nodiscard]] constexpr std::uint64_t in_stream(std::uint32_t stream,
                                                std::uint64_t place) noexcept {
  return static_cast<std::uint64_t>(stream) << kStreamShift | place;
}
[[nodiscard]] constexpr std::uint32_t stream_of(std::uint64_t index) noexcept {
  return static_cast<std::uint32_t>(index >> kStreamShift);
}
[[nodiscard]] constexpr std::uint64_t place_of(std::uint64_t index) noexcept {
  return index & ((std::uint64_t{1} << kStreamShift) - 1);
}

struct Transfer {
  Rank peer = 0;
  std::uint64_t bytes = 0;
  std::uint64_t number = 0;  // the same at both ends; part of the tag
  bool skip = false;         // nothing to move, and both ends know it
  Hint hint{};               // group counts from 0 within the collective
  // Indices of the receive that must have been processed, and of the send that must be complete,
  // before this entry may be posted.
  std::uint64_t after_receive = kNothing;
  std::uint64_t after_send = kNothing;
};

struct Outgoing : Transfer {
  const std::byte* data = nullptr;
};

struct Incoming : Transfer {
  std::byte* data = nullptr;
  // Indices of the receive that must have been processed, and of the send that must be complete,
  // before this entry may be processed.
  std::uint64_t process_after_receive = kNothing;
  std::uint64_t process_after_send = kNothing;
};

class Plan {
 public:
  virtual ~Plan() = default;

  // Called once, when the execution begins, before send, receive and process. The plan may use
  // `scratch` until its last send has completed. Copies data that stays on this rank.
  virtual void begin(std::byte* scratch) noexcept = 0;

  // The sends and receives of stream 0.
  [[nodiscard]] virtual std::uint64_t sends() const noexcept = 0;
  [[nodiscard]] virtual std::uint64_t receives() const noexcept = 0;
  [[nodiscard]] virtual std::uint32_t streams() const noexcept { return 1; }
  [[nodiscard]] virtual std::uint64_t sends_of(std::uint32_t) const noexcept { return sends(); }
  [[nodiscard]] virtual std::uint64_t receives_of(std::uint32_t) const noexcept {
    return receives();
  }
  [[nodiscard]] virtual Outgoing send(std::uint64_t index) const noexcept = 0;
  [[nodiscard]] virtual Incoming receive(std::uint64_t index) const noexcept = 0;

  // Receive `index` has arrived: reduces or copies it to its place. Returns the number of bytes
  // processed. Every receive that is not skipped is processed once, in any order that the
  // dependencies allow.
  virtual std::uint64_t process(std::uint64_t index) noexcept = 0;

  // The number of group numbers that it uses, the same at all ranks.
  [[nodiscard]] virtual std::uint32_t groups() const noexcept = 0;

  // True if sends read only scratch memory, so that the result may be handed out while they are in
  // flight. Other ranks may still wait for them then, so the router flushes what it has posted.
  [[nodiscard]] virtual bool sends_scratch() const noexcept { return false; }

 protected:
  Plan() = default;
  Plan(const Plan&) = default;
  Plan& operator=(const Plan&) = default;
};

// The smallest piece that pipelining cuts.
inline constexpr std::uint64_t kSmallestPieceBytes = 16 * 1024;
inline constexpr std::uint64_t kPiecesOfBlock = 4;

// Elements in a piece of a block of `block_elements`. A piece has at most chunk_bytes. It is a
// quarter of the block, unless that is less than kSmallestPieceBytes. It is a multiple of 64 bytes
// if the block is large enough.
[[nodiscard]] constexpr std::uint64_t piece_elements(std::uint64_t block_elements,
                                                     std::uint64_t element_bytes,
                                                     std::uint64_t chunk_bytes) noexcept {
  const std::uint64_t line = 64 / element_bytes;
  const std::uint64_t most = std::max<std::uint64_t>(1, chunk_bytes / element_bytes);
  const std::uint64_t least = std::min(most, kSmallestPieceBytes / element_bytes);
  const std::uint64_t part = (block_elements + kPiecesOfBlock - 1) / kPiecesOfBlock;
  const std::uint64_t whole_lines = (part + line - 1) / line * line;
  return std::clamp(whole_lines, least, most);
}

[[nodiscard]] constexpr std::uint16_t saturate16(std::uint64_t value) noexcept {
  return value > 0xffff ? std::uint16_t{0xffff} : static_cast<std::uint16_t>(value);
}

[[nodiscard]] constexpr unsigned ceil_log2(std::uint64_t value) noexcept {
  unsigned bits = 0;
  while ((std::uint64_t{1} << bits) < value) ++bits;
  return bits;
}

}  // namespace hawser::coll
