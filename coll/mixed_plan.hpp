// SPDX-License-Identifier: Apache-2.0
// All-reduce among ranks of unlike bandwidth: the parts of a mix (mix.hpp), side by side, each by
// an attached_plan.hpp with its own streams. A part's streams and groups follow those of the one
// before.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "coll/attached_plan.hpp"
#include "coll/mix.hpp"

namespace hawser::coll {

class MixedPlan final : public Plan {
 public:
  // `whole` describes the whole data; the number of attached ranks is each part's. The plan uses
  // 2 · depth · mix.streams() scratch slots of chunk_bytes.
  MixedPlan(const AttachedArguments& whole, const Mix& mix) noexcept;

  void begin(std::byte* scratch) noexcept override;
  [[nodiscard]] std::uint64_t sends() const noexcept override { return sends_of(0); }
  [[nodiscard]] std::uint64_t receives() const noexcept override { return receives_of(0); }
  [[nodiscard]] std::uint32_t streams() const noexcept override {
    return count_ * AttachedPlan::kStreams;
  }
  [[nodiscard]] std::uint64_t sends_of(std::uint32_t stream) const noexcept override;
  [[nodiscard]] std::uint64_t receives_of(std::uint32_t stream) const noexcept override;
  [[nodiscard]] Outgoing send(std::uint64_t index) const noexcept override;
  [[nodiscard]] Incoming receive(std::uint64_t index) const noexcept override;
  std::uint64_t process(std::uint64_t index) noexcept override;
  [[nodiscard]] std::uint32_t groups() const noexcept override;

 private:
  // Turns a part's transfer into one of the whole.
  void fit(Transfer& transfer, std::uint32_t part) const noexcept;

  std::array<AttachedPlan, Mix::kMostParts> parts_{};
  std::array<std::uint32_t, Mix::kMostParts> first_groups_{};
  std::uint32_t count_ = 0;
};

static_assert(Mix::kMostParts * AttachedPlan::kStreams <= kMostStreams);

}  // namespace hawser::coll
