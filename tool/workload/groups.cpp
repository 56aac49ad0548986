// SPDX-License-Identifier: Apache-2.0
#include "tool/workload/groups.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace hawser::tool {
namespace {

std::uint32_t largest_divisor(std::uint32_t n, std::uint64_t limit) {
  std::uint32_t divisor = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(limit, 1, n));
  while (n % divisor != 0) --divisor;
  return divisor;
}

std::uint32_t floor_root(std::uint32_t n) {
  std::uint32_t root = 1;
  while ((root + 1) * (root + 1) <= n) ++root;
  return root;
}

// The size of a kind that the workload doesn't mention, given the kinds before it.
std::uint64_t unstated_size(GroupKind kind, const GroupLayout& layout, const GroupSizes& stated) {
  const std::uint32_t n = layout.ranks;
  const auto rest = [n](std::uint32_t taken) { return taken < n ? n / taken : n; };
  switch (kind) {
    case GroupKind::tensor: return largest_divisor(n, floor_root(n));
    case GroupKind::data:
    case GroupKind::expert: {
      const std::uint32_t tensor = stated[GroupKind::tensor] ? layout[GroupKind::tensor].size : 1;
      const std::uint32_t stages =
          stated[GroupKind::pipeline] ? layout[GroupKind::pipeline].size : 1;
      return rest(std::min(n, tensor * stages));
    }
    case GroupKind::expert_data: return rest(layout[GroupKind::expert].size);
    case GroupKind::expert_tensor: {
      const std::uint64_t tensor = stated[GroupKind::tensor] ? layout[GroupKind::tensor].size : 1;
      return tensor * layout[GroupKind::expert].size;
    }
    case GroupKind::pipeline_ends: return std::min(2u, n);
    case GroupKind::pipeline:
    case GroupKind::world: return n;
  }
  return n;
}

// Tensor groups are neighbours, and so are groups of tensor and expert. Data and expert groups
// stride over tensor groups, and stages over everything.
std::uint32_t stride_of(GroupKind kind, std::uint32_t size, const GroupLayout& layout,
                        const GroupSizes& stated) {
  const std::uint32_t n = layout.ranks;
  const std::uint32_t widest = n / size;
  switch (kind) {
    case GroupKind::world:
    case GroupKind::tensor:
    case GroupKind::expert_tensor: return 1;
    case GroupKind::data:
    case GroupKind::expert: {
      const std::uint32_t tensor = stated[GroupKind::tensor] ? layout[GroupKind::tensor].size : 1;
      return widest % tensor == 0 ? tensor : widest;
    }
    case GroupKind::expert_data: {
      const std::uint32_t inner = layout[GroupKind::expert].size * layout[GroupKind::expert].stride;
      return widest % inner == 0 ? inner : widest;
    }
    case GroupKind::pipeline:
    case GroupKind::pipeline_ends: return widest;
  }
  return 1;
}

}  // namespace

std::vector<std::uint32_t> GroupLayout::members(GroupKind kind, std::uint32_t rank) const {
  const GroupShape& shape = (*this)[kind];
  const std::uint32_t first = rank - index_in_group(kind, rank) * shape.stride;
  std::vector<std::uint32_t> ranks_of;
  for (std::uint32_t i = 0; i < shape.size; ++i) ranks_of.push_back(first + i * shape.stride);
  return ranks_of;
}

GroupLayout lay_out_groups(const Workload& workload, std::uint32_t ranks,
                           std::vector<std::string>& warnings) {
  std::array<bool, kGroupKinds> used{};
  for (const auto* phases : {&workload.init, &workload.step}) {
    for (const Phase& phase : *phases) used[static_cast<std::size_t>(phase.group)] = true;
  }
  GroupLayout layout;
  layout.ranks = ranks;
  // The order matters: a kind's default may depend on those before it.
  for (const GroupKind kind :
       {GroupKind::world, GroupKind::tensor, GroupKind::pipeline, GroupKind::pipeline_ends,
        GroupKind::data, GroupKind::expert, GroupKind::expert_data, GroupKind::expert_tensor}) {
    const std::uint64_t stated = kind == GroupKind::world ? 0 : workload.sizes[kind];
    const std::uint64_t wanted = stated ? stated : unstated_size(kind, layout, workload.sizes);
    GroupShape shape;
    shape.size = largest_divisor(ranks, wanted);
    shape.stride = stride_of(kind, shape.size, layout, workload.sizes);
    layout.of[static_cast<std::size_t>(kind)] = shape;
    if (!used[static_cast<std::size_t>(kind)]) continue;
    if (stated && shape.size != stated) {
      warnings.push_back(
          fmt::format("{} groups of {} ranks are clamped to {}, as there are {} ranks",
                      to_string(kind), stated, shape.size, ranks));
    }
    if (shape.size == 1 && ranks > 1) {
      warnings.push_back(
          fmt::format("{} groups have one rank: their collectives move nothing", to_string(kind)));
    }
  }
  return layout;
}

}  // namespace hawser::tool
