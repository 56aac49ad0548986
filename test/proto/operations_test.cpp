// SPDX-License-Identifier: Apache-2.0
#include "proto/base/operations.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <vector>

namespace hawser::proto {
namespace {

TEST_CASE("Operations__a_name_is_free_again_when_its_buffer_is_released") {
  Operations operations(4);
  const OperationId name{(std::uint64_t{7} << 32) | 2};
  const OperationId same_index{(std::uint64_t{8} << 32) | 2};
  CHECK_FALSE(operations.is_free(OperationId{4}));
  REQUIRE(operations.is_free(name));
  operations.begin(name, OperationKind::send, 5, Time{1});
  CHECK_FALSE(operations.is_free(same_index));
  CHECK(operations.find(same_index) == nullptr);
  REQUIRE(operations.find(name) != nullptr);
  CHECK(operations.find(name)->outgoing == 5);
  operations.complete({.operation = name, .released = false});
  CHECK(operations.live() == 1);
  operations.complete({.operation = name, .released = true});
  CHECK(operations.live() == 0);
  CHECK(operations.is_free(same_index));
  CHECK(operations.find(name) == nullptr);
  std::array<Completion, 4> completions;
  REQUIRE(operations.poll(completions) == 2);
  CHECK_FALSE(completions[0].released);
  CHECK(completions[1].released);
  CHECK(operations.poll(completions) == 0);
}

TEST_CASE("Operations__receives_are_found_among_all") {
  Operations operations(4);
  for (std::uint64_t i = 0; i < 4; ++i) {
    operations.begin(OperationId{i}, i % 2 == 0 ? OperationKind::receive : OperationKind::send,
                     kNoIndex, Time{});
  }
  operations.complete({.operation = OperationId{0}, .released = true});
  std::vector<OperationId> found;
  operations.for_each_receive([&](const OperationSlot& slot) { found.push_back(slot.operation); });
  CHECK(found == std::vector{OperationId{2}});
}

}  // namespace
}  // namespace hawser::proto
