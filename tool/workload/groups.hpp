// SPDX-License-Identifier: Apache-2.0
// Which ranks form a group of a kind, when a workload is replayed with another number of ranks.
//
// A workload was written for its own number of ranks; a replay has N. Each stated size is taken if
// it divides N. Otherwise it is clamped to the largest divisor of N below it (with a warning), so
// that all groups of a kind are alike. These are the sizes of kinds that the workload doesn't
// mention:
//   `world`          N;
//   `data`           the size that tensor and pipeline groups leave of N, or N if that is one rank;
//   `expert_data`    the size that expert groups leave of the data groups' N, or N if that is one;
//   `expert_tensor`  the product of the sizes of tensor and expert groups;
//   `tensor`         the largest divisor of N not above sqrt(N);
//   `expert`         as data;
//   `pipeline`       N.
// Tensor groups are neighbours, and so are groups of tensor and expert. The others stride over
// tensor groups in Megatron's order (tensor, data, pipeline), where sizes fit, else over N.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tool/workload/model.hpp"

namespace hawser::tool {

// All groups of one kind: ranks r with the same r / (size*stride) and r % stride form a group.
struct GroupShape {
  std::uint32_t size = 1;
  std::uint32_t stride = 1;
};

struct GroupLayout {
  std::uint32_t ranks = 1;
  std::array<GroupShape, kGroupKinds> of{};

  [[nodiscard]] const GroupShape& operator[](GroupKind kind) const {
    return of[static_cast<std::size_t>(kind)];
  }
  // The ranks of this rank's group, in order; it is one of them.
  [[nodiscard]] std::vector<std::uint32_t> members(GroupKind kind, std::uint32_t rank) const;
  [[nodiscard]] std::uint32_t index_in_group(GroupKind kind, std::uint32_t rank) const {
    return rank / (*this)[kind].stride % (*this)[kind].size;
  }
};

// Appends to `warnings` which sizes were clamped, for the kinds that the workload uses.
[[nodiscard]] GroupLayout lay_out_groups(const Workload& workload, std::uint32_t ranks,
                                         std::vector<std::string>& warnings);

}  // namespace hawser::tool
