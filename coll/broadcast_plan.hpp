// SPDX-License-Identifier: Apache-2.0
// Broadcast along a tree, piece by piece: a rank passes piece k on to every child when it arrives.
//
// The tree is binomial, or a chain (root, root + 1, ...) if that takes fewer piece times. In a
// chain the last rank has everything after ranks + pieces of them. In a binomial tree the root
// alone sends for pieces · log2(ranks).
#pragma once

#include <cstddef>
#include <cstdint>

#include "coll/plan.hpp"

namespace hawser::coll {

struct BroadcastArguments {
  Rank rank = 0;
  Rank ranks = 2;
  Rank root = 0;
  std::byte* data = nullptr;
  std::uint64_t bytes = 1;
  std::uint64_t chunk_bytes = 0;
};

class BroadcastPlan final : public Plan {
 public:
  explicit BroadcastPlan(const BroadcastArguments& arguments) noexcept;

  void begin(std::byte*) noexcept override {}
  [[nodiscard]] std::uint64_t sends() const noexcept override { return pieces_ * children_; }
  [[nodiscard]] std::uint64_t receives() const noexcept override {
    return distance_ == 0 ? 0 : pieces_;
  }
  [[nodiscard]] Outgoing send(std::uint64_t index) const noexcept override;
  [[nodiscard]] Incoming receive(std::uint64_t index) const noexcept override;
  std::uint64_t process(std::uint64_t) noexcept override { return 0; }
  [[nodiscard]] std::uint32_t groups() const noexcept override { return 1; }

 private:
  [[nodiscard]] Rank at_distance(Rank distance) const noexcept;
  void fill(Transfer& transfer, std::uint64_t piece) const noexcept;

  BroadcastArguments a_;
  Rank distance_ = 0;  // from the root, around the ring of ranks
  std::uint64_t piece_ = 1;
  std::uint64_t pieces_ = 1;
  bool chain_ = false;
  std::uint32_t children_ = 0;
};

}  // namespace hawser::coll
