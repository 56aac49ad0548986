// SPDX-License-Identifier: Apache-2.0
// All-reduce of little data by recursive doubling (Thakur, Rabenseifner and Gropp, 2005).
//
// Let p be the largest power of two up to n. The first 2(n - p) ranks form pairs of neighbours. The
// even rank of a pair hands its data to the odd one, sits out, and gets the result in the end. In
// log2(p) stages each of the other ranks exchanges all its data with a partner whose number differs
// in one bit.
//
// Every stage has a scratch slot of its own: stage i sends slot i and receives into slot i + 1,
// where the two are combined. No stage therefore waits for a send to complete, which would cost an
// acknowledgement per stage. The user's buffers are read before the first message and written after
// the last. The lower rank's operand always comes first, so all ranks compute the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "coll/plan.hpp"

namespace hawser::coll {

struct DoublingArguments {
  Rank rank = 0;
  Rank ranks = 2;
  std::uint64_t count = 1;
  DataType type = DataType::f32;
  Reduction reduction{ReduceOp::sum};
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
};

class DoublingPlan final : public Plan {
 public:
  explicit DoublingPlan(const DoublingArguments& arguments) noexcept;

  // Number of copies of the data that its scratch memory holds.
  [[nodiscard]] static std::uint64_t slots(Rank ranks) noexcept { return ceil_log2(ranks) + 2; }

  void begin(std::byte* scratch) noexcept override;
  [[nodiscard]] std::uint64_t sends() const noexcept override;
  [[nodiscard]] std::uint64_t receives() const noexcept override;
  [[nodiscard]] Outgoing send(std::uint64_t index) const noexcept override;
  [[nodiscard]] Incoming receive(std::uint64_t index) const noexcept override;
  std::uint64_t process(std::uint64_t index) noexcept override;
  [[nodiscard]] std::uint32_t groups() const noexcept override { return steps_; }
  [[nodiscard]] bool sends_scratch() const noexcept override { return true; }

 private:
  enum class Role : std::uint8_t {
    sits_out,  // even neighbour of a pair
    stands_for_two,
    alone,
  };
  [[nodiscard]] std::byte* slot(std::uint64_t index) const noexcept;
  [[nodiscard]] Rank partner(std::uint32_t stage) const noexcept;
  // The hint's step, and also the message's number, of this rank's i-th exchange.
  [[nodiscard]] std::uint32_t step_of_receive(std::uint64_t index) const noexcept;
  [[nodiscard]] std::uint32_t step_of_send(std::uint64_t index) const noexcept;
  [[nodiscard]] Rank peer_at(std::uint32_t step) const noexcept;
  void fill(Transfer& transfer, std::uint32_t step) const noexcept;

  DoublingArguments a_;
  std::byte* scratch_ = nullptr;
  std::uint64_t bytes_ = 0;
  Role role_ = Role::alone;
  std::uint32_t pairs_ = 0;   // n - p
  std::uint32_t stages_ = 0;  // log2(p)
  std::uint32_t steps_ = 0;   // stages, and those of folding in and out if there are pairs
};

}  // namespace hawser::coll
