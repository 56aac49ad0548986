// SPDX-License-Identifier: Apache-2.0
// Reduce to one rank along a tree, piece by piece. A rank sends piece k to its parent once it has
// reduced its own piece with those of all its children.
//
// The tree is the broadcast's with its arrows reversed: binomial, or a chain if that takes fewer
// piece times. A rank processes its children in the order of their distance from the root, so every
// run computes the same bits.
//
// Receives go through 2 · depth scratch slots of chunk_bytes. The partial sum of a piece is in the
// slot of the latest child. The rank sends the sum in the last child's slot. At the root that sum
// goes to `out` instead.
#pragma once

#include <cstddef>
#include <cstdint>

#include "coll/plan.hpp"

namespace hawser::coll {

struct ReduceArguments {
  Rank rank = 0;
  Rank ranks = 2;
  Rank root = 0;
  std::uint64_t count = 1;
  DataType type = DataType::f32;
  Reduction reduction{ReduceOp::sum};
  const std::byte* in = nullptr;
  std::byte* out = nullptr;  // of the root; may be `in`
  std::uint64_t chunk_bytes = 0;
  std::uint32_t depth = 1;
};

class ReducePlan final : public Plan {
 public:
  explicit ReducePlan(const ReduceArguments& arguments) noexcept;

  void begin(std::byte* scratch) noexcept override { scratch_ = scratch; }
  [[nodiscard]] std::uint64_t sends() const noexcept override {
    return distance_ == 0 ? 0 : pieces_;
  }
  [[nodiscard]] std::uint64_t receives() const noexcept override { return pieces_ * children_; }
  [[nodiscard]] Outgoing send(std::uint64_t index) const noexcept override;
  [[nodiscard]] Incoming receive(std::uint64_t index) const noexcept override;
  std::uint64_t process(std::uint64_t index) noexcept override;
  [[nodiscard]] std::uint32_t groups() const noexcept override { return 1; }

 private:
  [[nodiscard]] std::uint32_t children_of(Rank distance) const noexcept;
  [[nodiscard]] Rank at_distance(Rank distance) const noexcept;
  [[nodiscard]] std::uint64_t slots() const noexcept { return 2 * std::uint64_t{a_.depth}; }
  [[nodiscard]] std::byte* slot(std::uint64_t receive) const noexcept;
  [[nodiscard]] bool is_last_child(std::uint64_t receive) const noexcept {
    return (receive + 1) % children_ == 0;
  }
  [[nodiscard]] std::uint64_t piece_bytes(std::uint64_t piece) const noexcept;
  // `parent` is the distance of the rank that receives the piece.
  void fill(Transfer& transfer, std::uint64_t piece, Rank parent) const noexcept;

  ReduceArguments a_;
  std::byte* scratch_ = nullptr;
  Rank distance_ = 0;        // from the root, around the ring of ranks
  std::uint64_t piece_ = 1;  // elements
  std::uint64_t pieces_ = 1;
  bool chain_ = false;
  std::uint32_t children_ = 0;
};

}  // namespace hawser::coll
