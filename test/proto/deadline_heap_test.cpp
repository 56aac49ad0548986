// SPDX-License-Identifier: Apache-2.0
#include "proto/base/deadline_heap.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "test/support/seeded.hpp"

namespace {

using hawser::proto::DeadlineHeap;
using hawser::proto::kNever;
using hawser::proto::Random;
using hawser::proto::Time;

using Model = std::map<std::uint32_t, Time>;

Time earliest(const Model& model) {
  Time result = kNever;
  for (const auto& [id, deadline] : model) result = std::min(result, deadline);
  return result;
}

}  // namespace

TEST_CASE("deadline heap: model") {
  hawser::test::for_each_seed(100, [](Random& random) {
    const auto capacity = static_cast<std::uint32_t>(1 + random.below(60));
    DeadlineHeap heap(capacity);
    Model model;
    const std::uint64_t range = random.chance(0.5) ? 10 : 1000000;  // many equal deadlines, or few
    for (int step = 0; step < 500; ++step) {
      const auto id = static_cast<std::uint32_t>(random.below(capacity));
      const std::uint64_t action = random.below(10);
      if (action < 6) {
        const Time deadline{static_cast<std::int64_t>(1 + random.below(range))};
        heap.update(id, deadline);
        model[id] = deadline;
      } else if (action < 8) {
        heap.remove(id);
        model.erase(id);
      } else if (action == 8) {
        heap.update(id, kNever);
        model.erase(id);
      } else if (!model.empty()) {
        const DeadlineHeap::Entry entry = heap.pop();
        REQUIRE(entry.deadline == earliest(model));
        REQUIRE(model.at(entry.id) == entry.deadline);
        model.erase(entry.id);
      }
      REQUIRE(heap.size() == model.size());
      REQUIRE(heap.empty() == model.empty());
      REQUIRE(heap.next() == earliest(model));
      if (!model.empty()) REQUIRE(model.at(heap.top().id) == heap.next());
      for (std::uint32_t i = 0; i < capacity; ++i) {
        const auto entry = model.find(i);
        REQUIRE(heap.contains(i) == (entry != model.end()));
        REQUIRE(heap.deadline_of(i) == (entry == model.end() ? kNever : entry->second));
      }
    }
    for (Time last{0}; !heap.empty();) {
      const Time deadline = heap.pop().deadline;
      REQUIRE(deadline >= last);
      last = deadline;
    }
  });
}
