// SPDX-License-Identifier: Apache-2.0
// All-to-all: every rank has a block for every rank.
//
// Pairwise exchange: in round k the ranks i and j with i + j = k (mod n) swap. Every rank therefore
// has exactly one partner in a round (or itself), and no rank is the target of many at once. Entry
// round · pieces + piece has the same partner in the sends and in the receives. The execution's
// window bounds how many rounds overlap.
//
// Out of place, a block is one message, straight from buffer to buffer. In place, a block is cut
// into pieces. Each piece is received into a scratch slot, and copied over the old data once that
// has been sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "coll/plan.hpp"

namespace hawser::coll {

struct ExchangeArguments {
  Rank rank = 0;
  Rank ranks = 2;
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  // all_to_all: the length of every block.
  std::uint64_t block_bytes = 0;
  // all_to_all_v: the segments to and from each rank; else empty. Not copied.
  std::span<const Segment> to{};
  std::span<const Segment> from{};
  // In place, the plan uses 2 · depth scratch slots of chunk_bytes.
  std::uint64_t chunk_bytes = 0;
  std::uint32_t depth = 1;
};

class ExchangePlan final : public Plan {
 public:
  explicit ExchangePlan(const ExchangeArguments& arguments) noexcept;

  void begin(std::byte* scratch) noexcept override;
  [[nodiscard]] std::uint64_t sends() const noexcept override { return a_.ranks * pieces_; }
  [[nodiscard]] std::uint64_t receives() const noexcept override { return a_.ranks * pieces_; }
  [[nodiscard]] Outgoing send(std::uint64_t index) const noexcept override;
  [[nodiscard]] Incoming receive(std::uint64_t index) const noexcept override;
  std::uint64_t process(std::uint64_t index) noexcept override;
  [[nodiscard]] std::uint32_t groups() const noexcept override { return 1; }

 private:
  [[nodiscard]] bool in_place() const noexcept { return a_.in == a_.out; }
  [[nodiscard]] Rank partner(std::uint64_t index) const noexcept;
  // The part of `block` that entry `index` moves.
  [[nodiscard]] Segment part(const Segment& block, std::uint64_t index) const noexcept;
  [[nodiscard]] Segment block_to(Rank rank) const noexcept;
  [[nodiscard]] Segment block_from(Rank rank) const noexcept;
  [[nodiscard]] std::byte* slot(std::uint64_t index) const noexcept;
  [[nodiscard]] Hint hint() const noexcept;

  ExchangeArguments a_;
  std::byte* scratch_ = nullptr;
  std::uint64_t pieces_ = 1;   // of a block
  std::uint32_t awaited_ = 0;  // messages that this rank receives
};

}  // namespace hawser::coll
