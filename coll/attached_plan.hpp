// SPDX-License-Identifier: Apache-2.0
// All-reduce of a part of the data in which the slowest ranks are attached to a ring of the others
// (schedule k of mix.hpp; with k = 1 it is OptCC's, arXiv 2606.01680).
//
// The m = p - k members of the ring reduce-scatter and all-gather among themselves, as
// ring_plan.hpp says. An attached rank sends each block of its input to the block's owner. The
// owner adds up its own input and theirs, in the order of the attached ranks, before the ring's
// last reduce step takes the sum. It sends the block's result to each of them. Without attached
// ranks this is the ring.
//
// Streams, each with a window of its own, as their paces differ:
//   0   the ring, of its members
//   1   inputs of attached ranks. An owner's entry is piece · k + attached rank. An attached rank's
//       entry is piece · m + block, counted from its own place.
//   2   results for attached ranks, numbered in the same way
//
// The sums of stream 1 are in 2 · depth scratch slots behind those of the ring. A slot is free when
// the next input has been added in its own slot or, of the last input, the ring has taken the sum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "coll/ring_plan.hpp"

namespace hawser::coll {

struct AttachedArguments {
  std::span<const Rank> order{};  // all ranks, the slowest first. Not copied.
  Rank attached = 0;              // the first of them: less than all
  Rank place = 0;                 // of this rank in `order`
  std::uint64_t count = 0;        // elements
  DataType type = DataType::f32;
  Reduction reduction{ReduceOp::sum};
  const std::byte* in = nullptr;  // where the part begins
  std::byte* out = nullptr;
  std::uint64_t chunk_bytes = 0;
  std::uint32_t depth = 1;
};

class AttachedPlan final : public Plan {
 public:
  static constexpr std::uint32_t kStreams = 3;

  AttachedPlan() noexcept = default;  // of no rank; to be assigned
  explicit AttachedPlan(const AttachedArguments& arguments) noexcept;

  [[nodiscard]] std::uint64_t scratch_bytes() const noexcept {
    return (a_.attached == 0 ? 2 : 4) * std::uint64_t{a_.depth} * a_.chunk_bytes;
  }

  void begin(std::byte* scratch) noexcept override;
  [[nodiscard]] std::uint64_t sends() const noexcept override { return sends_of(0); }
  [[nodiscard]] std::uint64_t receives() const noexcept override { return receives_of(0); }
  [[nodiscard]] std::uint32_t streams() const noexcept override { return kStreams; }
  [[nodiscard]] std::uint64_t sends_of(std::uint32_t stream) const noexcept override;
  [[nodiscard]] std::uint64_t receives_of(std::uint32_t stream) const noexcept override;
  [[nodiscard]] Outgoing send(std::uint64_t index) const noexcept override;
  [[nodiscard]] Incoming receive(std::uint64_t index) const noexcept override;
  std::uint64_t process(std::uint64_t index) noexcept override;
  [[nodiscard]] std::uint32_t groups() const noexcept override;

 private:
  // A piece of a block, between its owner and an attached rank.
  struct Crossing {
    std::uint64_t piece = 0;
    Rank owner = 0;     // number in the ring, and of the block
    Rank attached = 0;  // place in `order`
  };

  [[nodiscard]] bool is_attached() const noexcept { return a_.place < a_.attached; }
  [[nodiscard]] Rank members() const noexcept {
    return static_cast<Rank>(a_.order.size()) - a_.attached;
  }
  [[nodiscard]] std::uint64_t crossings() const noexcept;
  [[nodiscard]] Crossing crossing(std::uint64_t place) const noexcept;
  [[nodiscard]] RingPlan::Range range(const Crossing& at) const noexcept;
  [[nodiscard]] std::byte* slot(std::uint64_t place) const noexcept;
  // The entry whose processing completes an own piece.
  [[nodiscard]] std::uint64_t completing(std::uint64_t piece) const noexcept;
  [[nodiscard]] std::uint64_t last_input(std::uint64_t piece) const noexcept;
  void fill(Transfer& transfer, std::uint32_t stream, const Crossing& at) const noexcept;
  [[nodiscard]] Incoming receive_input(std::uint64_t place) const noexcept;
  std::uint64_t process_input(std::uint64_t place) noexcept;

  AttachedArguments a_;
  RingPlan ring_;  // of an attached rank only for its arithmetic
  std::uint64_t pieces_ = 0;
  std::byte* scratch_ = nullptr;  // of stream 1
};

}  // namespace hawser::coll
