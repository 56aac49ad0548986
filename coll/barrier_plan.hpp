// SPDX-License-Identifier: Apache-2.0
// Barrier by dissemination (Hensgen, Finkel and Manber, 1988). In stage i every rank sends to the
// rank 2^i ahead and receives from the one 2^i behind. After ceil(log2 n) stages every rank has
// heard, directly or indirectly, from all others.
#pragma once

#include <cstdint>

#include "coll/plan.hpp"

namespace hawser::coll {

class BarrierPlan final : public Plan {
 public:
  BarrierPlan(Rank rank, Rank ranks) noexcept : rank_(rank), ranks_(ranks) {}

  void begin(std::byte*) noexcept override {}
  [[nodiscard]] std::uint64_t sends() const noexcept override { return ceil_log2(ranks_); }
  [[nodiscard]] std::uint64_t receives() const noexcept override { return ceil_log2(ranks_); }
  [[nodiscard]] Outgoing send(std::uint64_t index) const noexcept override;
  [[nodiscard]] Incoming receive(std::uint64_t index) const noexcept override;
  std::uint64_t process(std::uint64_t) noexcept override { return 0; }
  [[nodiscard]] std::uint32_t groups() const noexcept override { return ceil_log2(ranks_); }
  [[nodiscard]] bool sends_scratch() const noexcept override { return true; }

 private:
  void fill(Transfer& transfer, std::uint64_t index) const noexcept;

  Rank rank_;
  Rank ranks_;
};

}  // namespace hawser::coll
