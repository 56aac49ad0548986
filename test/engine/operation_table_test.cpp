// SPDX-License-Identifier: Apache-2.0
#include "engine/operation_table.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace hawser::engine {
namespace {

TEST_CASE("OperationTable__agrees_with_a_model") {
  const auto capacity = GENERATE(std::size_t{16}, std::size_t{100});
  CAPTURE(capacity);
  std::mt19937 random(7);
  OperationTable table(capacity);
  std::map<std::uint32_t, OperationId> live;  // by index
  std::set<OperationId> ever;
  for (int step = 0; step < 20000; ++step) {
    if (random() % 2 == 0) {
      OperationId operation = kNoOperation;
      OperationSlot* slot = table.take(operation);
      REQUIRE((slot == nullptr) == (live.size() == capacity));
      if (slot == nullptr) continue;
      REQUIRE(index_of(operation) < capacity);
      REQUIRE(slot == &table.at(index_of(operation)));
      REQUIRE(live.emplace(index_of(operation), operation).second);
      REQUIRE(ever.insert(operation).second);  // names are not used again
    } else {
      std::vector<std::uint64_t> indices;
      for (const auto& [index, operation] : live) {
        if (random() % 3 == 0) indices.push_back(index);
      }
      for (const std::uint64_t index : indices) live.erase(static_cast<std::uint32_t>(index));
      table.give(indices);
    }
  }
}

}  // namespace
}  // namespace hawser::engine
