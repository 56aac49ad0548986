// SPDX-License-Identifier: Apache-2.0
// Memory of this process. Words are changed by std::atomic_ref, so a program that uses it on the
// same words is part of the same order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "proto/region/placement.hpp"

namespace hawser::proto {

class HostPlacement final : public Placement {
 public:
  void place(std::byte* to, const std::byte* from, std::size_t bytes) override;
  void make_visible() override;
  [[nodiscard]] bool execute(std::byte* word, const WordOperation& operation,
                             std::uint64_t& before) override;
  [[nodiscard]] std::size_t granularity() const override { return 8; }
};

}  // namespace hawser::proto
