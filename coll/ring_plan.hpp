// SPDX-License-Identifier: Apache-2.0
// All-reduce, reduce-scatter and all-gather around a ring (Patarasuk and Yuan, 2009).
//
// Every rank sends to the next and receives from the previous one. The data is n blocks. In n - 1
// *reduce steps* a block travels once around the ring. Each rank adds its own share, and the block
// ends at the rank of its number. In n - 1 *gather steps* the results travel on to every rank.
// Reduce-scatter has only reduce steps, all-gather only gather steps.
//
// Blocks are cut into pieces. Up to `depth` pieces of every block go round together: a slab. Entry
//   k = (slab · steps + step) · pieces of a slab + piece
// of a rank's sends is entry k of its neighbour's receives. A step sends what the previous step
// received, so send k waits for receive k - pieces.
//
// A reduce step receives into a scratch slot, reduces the input into it, and sends the slot on. The
// last reduce step reduces into the output. Slots are used in turn. A receive waits until the
// previous piece in its slot has been sent on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "coll/plan.hpp"

namespace hawser::coll {

struct RingArguments {
  Collective collective = Collective::all_reduce;  // or reduce_scatter, all_gather
  Rank rank = 0;
  Rank ranks = 2;
  // The ring's ranks in its order, where it isn't made of all; `rank` is then a place in it. Not
  // copied. `contributors`: the ranks whose inputs are in the sums; 0: the ring's.
  std::span<const Rank> members{};
  Rank contributors = 0;
  // all_reduce: elements in total; otherwise elements of each rank's block.
  std::uint64_t count = 0;
  // Not all_reduce: where each rank's block lies, of whole elements. Not copied. Empty: one behind
  // the other, of `count` elements each.
  std::span<const Segment> blocks{};
  // all_gather does no arithmetic: its elements have one byte.
  std::uint64_t element_bytes = 1;
  DataType type = DataType::f32;
  Reduction reduction{ReduceOp::sum};
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  // Reduce steps use 2 · depth scratch slots of chunk_bytes.
  std::uint64_t chunk_bytes = 0;
  std::uint32_t depth = 1;
};

class RingPlan final : public Plan {
 public:
  // A run of elements within a block.
  struct Range {
    std::uint64_t offset = 0;           // bytes from the start of all blocks
    std::uint64_t offset_in_block = 0;  // bytes
    std::uint64_t elements = 0;
  };

  RingPlan() noexcept = default;  // of no rank; to be assigned
  explicit RingPlan(const RingArguments& arguments) noexcept;

  void begin(std::byte* scratch) noexcept override;
  [[nodiscard]] std::uint64_t sends() const noexcept override { return entries_; }
  [[nodiscard]] std::uint64_t receives() const noexcept override { return entries_; }
  [[nodiscard]] Outgoing send(std::uint64_t index) const noexcept override;
  [[nodiscard]] Incoming receive(std::uint64_t index) const noexcept override;
  std::uint64_t process(std::uint64_t index) noexcept override;
  [[nodiscard]] std::uint32_t groups() const noexcept override {
    return static_cast<std::uint32_t>(slabs_ * steps_);
  }

  // For plans that add inputs of other ranks to the own block (attached_plan.hpp).
  [[nodiscard]] std::uint64_t pieces() const noexcept { return pieces_; }  // of the longest block
  [[nodiscard]] Range piece_of(Rank block, std::uint64_t piece) const noexcept;
  [[nodiscard]] std::uint64_t blocks_with_piece(std::uint64_t piece) const noexcept;
  // Whether the processing of this receive completes a piece of the own block, and which one.
  [[nodiscard]] bool completes(std::uint64_t index) const noexcept;
  [[nodiscard]] std::uint64_t piece_number(std::uint64_t index) const noexcept;
  [[nodiscard]] std::uint64_t completing(std::uint64_t piece) const noexcept;
  // As process, with `own` instead of the own input.
  std::uint64_t process(std::uint64_t index, const std::byte* own) noexcept;

 private:
  struct Position {
    std::uint64_t slab = 0;
    std::uint32_t step = 0;
    std::uint32_t lane = 0;  // piece within the slab
  };

  [[nodiscard]] Position position(std::uint64_t index) const noexcept;
  [[nodiscard]] std::uint64_t index(const Position& position) const noexcept;
  [[nodiscard]] Rank member(std::uint32_t place) const noexcept;
  [[nodiscard]] Rank sent_block(std::uint32_t step) const noexcept;
  [[nodiscard]] Rank received_block(std::uint32_t step) const noexcept;
  [[nodiscard]] std::uint64_t block_elements(Rank block) const noexcept;
  [[nodiscard]] std::uint64_t longest_block() const noexcept;
  // Bytes from the start of all blocks.
  [[nodiscard]] std::uint64_t block_begin(Rank block) const noexcept;
  [[nodiscard]] Range range(Rank block, const Position& position) const noexcept;
  [[nodiscard]] std::byte* slot(const Position& position) const noexcept;
  void wait_for_slot(const Position& position, Incoming& incoming) const noexcept;
  void wait_in_place(std::uint64_t index, const Position& position,
                     Incoming& incoming) const noexcept;
  [[nodiscard]] Hint hint(Rank block, const Position& position) const noexcept;

  RingArguments a_;
  std::byte* scratch_ = nullptr;
  std::uint32_t reduce_steps_ = 0;
  std::uint32_t steps_ = 0;
  std::uint64_t piece_ = 1;  // elements
  std::uint64_t pieces_ = 0;
  std::uint32_t lanes_ = 1;  // pieces of a slab
  std::uint64_t slabs_ = 0;
  std::uint64_t entries_ = 0;
};

}  // namespace hawser::coll
