// SPDX-License-Identifier: Apache-2.0
// Gather and scatter: a block for each rank moves between it and the root, as one message.
//
// The root receives or sends blocks in the order of the ranks behind it, a window of them at once.
// A tree would take fewer steps for short blocks, but move each byte several times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "coll/plan.hpp"

namespace hawser::coll {

struct RootedArguments {
  bool to_root = true;  // a gather; otherwise a scatter
  Rank rank = 0;
  Rank ranks = 2;
  Rank root = 0;
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::uint64_t block_bytes = 0;  // of this rank
  // Each rank has a length of its own. The root knows them all: `blocks` says where each block lies
  // in its larger buffer. Not copied.
  bool has_lengths = false;
  std::span<const Segment> blocks{};
};

class RootedPlan final : public Plan {
 public:
  explicit RootedPlan(const RootedArguments& arguments) noexcept;

  void begin(std::byte*) noexcept override;
  [[nodiscard]] std::uint64_t sends() const noexcept override { return entries(!a_.to_root); }
  [[nodiscard]] std::uint64_t receives() const noexcept override { return entries(a_.to_root); }
  [[nodiscard]] Outgoing send(std::uint64_t index) const noexcept override;
  [[nodiscard]] Incoming receive(std::uint64_t index) const noexcept override;
  std::uint64_t process(std::uint64_t) noexcept override { return 0; }
  [[nodiscard]] std::uint32_t groups() const noexcept override { return 1; }

 private:
  [[nodiscard]] bool is_root() const noexcept { return a_.rank == a_.root; }
  // The root has an entry for every other rank in one list, and each of them has one in the other.
  [[nodiscard]] std::uint64_t entries(bool at_root) const noexcept {
    if (is_root()) return at_root ? a_.ranks - 1 : 0;
    return at_root ? 0 : 1;
  }
  [[nodiscard]] Segment block_of(Rank rank) const noexcept;
  // Returns the offset of the entry's block.
  std::uint64_t fill(Transfer& transfer, std::uint64_t index) const noexcept;

  RootedArguments a_;
  std::uint16_t awaited_ = 0;  // messages that the root of a gather receives; 0: not known here
};

}  // namespace hawser::coll
