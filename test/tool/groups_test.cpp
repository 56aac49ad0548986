// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <set>

#include "tool/workload/groups.hpp"

namespace hawser::tool {
namespace {

Workload using_groups(std::initializer_list<GroupKind> kinds) {
  Workload workload;
  for (const GroupKind kind : kinds) {
    Phase phase;
    phase.group = kind;
    phase.bytes = 64;
    workload.step.push_back(phase);
  }
  return workload;
}

using Members = std::vector<std::uint32_t>;

TEST_CASE("groups: tensor groups are neighbours, data groups stride over them, stages over both") {
  Workload workload = using_groups({GroupKind::tensor, GroupKind::data, GroupKind::pipeline});
  workload.sizes[GroupKind::tensor] = 2;
  workload.sizes[GroupKind::data] = 2;
  workload.sizes[GroupKind::pipeline] = 2;
  std::vector<std::string> warnings;
  const GroupLayout layout = lay_out_groups(workload, 8, warnings);
  CHECK(warnings.empty());
  CHECK(layout.members(GroupKind::tensor, 5) == Members{4, 5});
  CHECK(layout.members(GroupKind::data, 5) == Members{5, 7});
  CHECK(layout.members(GroupKind::pipeline, 5) == Members{1, 5});
  CHECK(layout.members(GroupKind::world, 5) == Members{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(layout.index_in_group(GroupKind::pipeline, 5) == 1);
}

TEST_CASE("groups: a group of tensor and expert has the tensor groups of an expert group") {
  Workload workload = using_groups({GroupKind::expert, GroupKind::expert_tensor});
  workload.sizes[GroupKind::tensor] = 2;
  workload.sizes[GroupKind::expert] = 2;
  std::vector<std::string> warnings;
  for (const std::uint64_t stated : {0, 4}) {
    workload.sizes[GroupKind::expert_tensor] = stated;
    const GroupLayout layout = lay_out_groups(workload, 8, warnings);
    CHECK(layout.members(GroupKind::expert, 5) == Members{5, 7});
    CHECK(layout.members(GroupKind::expert_tensor, 5) == Members{4, 5, 6, 7});
  }
  CHECK(warnings.empty());
}

TEST_CASE("groups: what is larger than the ranks or does not divide them is clamped, and said") {
  Workload workload = using_groups({GroupKind::tensor, GroupKind::data});
  workload.sizes[GroupKind::tensor] = 8;
  workload.sizes[GroupKind::data] = 16;
  std::vector<std::string> warnings;
  const GroupLayout layout = lay_out_groups(workload, 6, warnings);
  CHECK(layout[GroupKind::tensor].size == 6);
  CHECK(layout[GroupKind::data].size == 6);
  REQUIRE(warnings.size() == 2);
  CHECK(warnings[0] == "tensor groups of 8 ranks are clamped to 6, as there are 6 ranks");

  warnings.clear();
  workload.sizes[GroupKind::tensor] = 4;
  CHECK(lay_out_groups(workload, 6, warnings)[GroupKind::tensor].size == 3);
  CHECK(warnings.size() == 2);
}

TEST_CASE("groups: unstated data groups take what tensor groups leave") {
  Workload workload = using_groups({GroupKind::tensor, GroupKind::data});
  workload.sizes[GroupKind::tensor] = 2;
  std::vector<std::string> warnings;
  CHECK(lay_out_groups(workload, 8, warnings)[GroupKind::data].size == 4);
  workload.sizes[GroupKind::tensor] = 8;
  CHECK(lay_out_groups(workload, 8, warnings)[GroupKind::data].size == 8);
  CHECK(warnings.empty());
}

TEST_CASE("groups: for every size, each kind's groups partition the ranks") {
  for (std::uint32_t ranks = 1; ranks <= 24; ++ranks) {
    for (std::uint64_t tensor = 0; tensor <= 5; ++tensor) {
      for (std::uint64_t stages = 0; stages <= 4; ++stages) {
        Workload workload = using_groups({GroupKind::tensor});
        workload.sizes[GroupKind::tensor] = tensor;
        workload.sizes[GroupKind::pipeline] = stages;
        workload.sizes[GroupKind::expert] = tensor + stages;
        std::vector<std::string> warnings;
        const GroupLayout layout = lay_out_groups(workload, ranks, warnings);
        for (std::size_t k = 0; k < kGroupKinds; ++k) {
          const auto kind = static_cast<GroupKind>(k);
          INFO(ranks << " ranks, tensor " << tensor << ", stages " << stages << ", kind "
                     << to_string(kind));
          for (std::uint32_t rank = 0; rank < ranks; ++rank) {
            const Members members = layout.members(kind, rank);
            REQUIRE(members.size() == layout[kind].size);
            REQUIRE(members.back() < ranks);
            REQUIRE(members[layout.index_in_group(kind, rank)] == rank);
            for (const std::uint32_t other : members) {
              REQUIRE(layout.members(kind, other) == members);
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace hawser::tool
