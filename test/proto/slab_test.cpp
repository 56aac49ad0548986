// SPDX-License-Identifier: Apache-2.0
#include "proto/base/slab.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <vector>

#include "test/support/seeded.hpp"

namespace {

using hawser::proto::kNoIndex;
using hawser::proto::kNoSlabId;
using hawser::proto::Random;
using hawser::proto::Slab;
using hawser::proto::SlabId;

struct Thing {
  std::uint64_t value = 7;
};

struct Resettable {
  int value = 0;
  int resets = 0;
  void reset() {
    value = 0;
    ++resets;
  }
};

}  // namespace

TEST_CASE("slab: the first generation is 1, and freeing makes old names void") {
  Slab<Thing> slab(2);
  SlabId first;
  REQUIRE(slab.try_allocate(first) != nullptr);
  CHECK(first.generation == 1);
  CHECK(slab.get(first) == &slab.at(first.index));
  CHECK(slab.id_of(slab.at(first.index)) == first);
  slab.free(first.index);
  CHECK(slab.get(first) == nullptr);
  // The name that the next object will have isn't valid yet, either.
  CHECK(slab.get({first.index, 2}) == nullptr);
  SlabId second;
  REQUIRE(slab.try_allocate(second) != nullptr);
  CHECK(second == SlabId{first.index, 2});
  CHECK(slab.get(first) == nullptr);
  CHECK(slab.get(second) != nullptr);
  CHECK(slab.get(kNoSlabId) == nullptr);
}

TEST_CASE("slab: full gives null and leaves the name alone, the last freed is the next given") {
  Slab<Thing> slab(3);
  std::vector<SlabId> ids(3);
  for (SlabId& id : ids) REQUIRE(slab.try_allocate(id) != nullptr);
  CHECK(slab.full());
  SlabId id{42, 43};
  CHECK(slab.try_allocate(id) == nullptr);
  CHECK(id == SlabId{42, 43});
  slab.free(ids[2].index);
  slab.free(ids[0].index);
  REQUIRE(slab.try_allocate(id) != nullptr);
  CHECK(id.index == ids[0].index);
  REQUIRE(slab.try_allocate(id) != nullptr);
  CHECK(id.index == ids[2].index);

  Slab<Thing> none(0);
  CHECK(none.try_allocate() == nullptr);
}

TEST_CASE("slab: an object comes as if just constructed, by reset where there is one") {
  Slab<Thing> slab(1);
  slab.try_allocate()->value = 99;
  slab.free(0);
  CHECK(slab.try_allocate()->value == 7);

  Slab<Resettable> resettable(1);
  resettable.try_allocate()->value = 99;
  resettable.free(0);
  const Resettable* again = resettable.try_allocate();
  CHECK(again->value == 0);
  CHECK(again->resets == 2);
}

TEST_CASE("slab: model") {
  hawser::test::for_each_seed(50, [](Random& random) {
    const auto capacity = static_cast<std::uint32_t>(1 + random.below(20));
    Slab<Thing> slab(capacity);
    std::map<std::uint32_t, SlabId> live;
    std::vector<SlabId> dead;
    std::uint64_t stamp = 1000;
    std::map<std::uint32_t, std::uint64_t> values;
    for (int step = 0; step < 500; ++step) {
      if (random.chance(0.55)) {
        SlabId id;
        Thing* thing = slab.try_allocate(id);
        REQUIRE((thing == nullptr) == (live.size() == capacity));
        if (thing == nullptr) continue;
        REQUIRE(live.count(id.index) == 0);
        REQUIRE(thing->value == 7);
        thing->value = values[id.index] = ++stamp;
        live[id.index] = id;
      } else if (!live.empty()) {
        auto victim = live.begin();
        std::advance(victim, static_cast<std::ptrdiff_t>(random.below(live.size())));
        slab.free(victim->first);
        dead.push_back(victim->second);
        live.erase(victim);
      }
      REQUIRE(slab.size() == live.size());
      REQUIRE(slab.full() == (live.size() == capacity));
      for (const auto& [index, id] : live) {
        REQUIRE(slab.is_live(index));
        REQUIRE(slab.get(id) != nullptr);
        REQUIRE(slab.get(id)->value == values[index]);
        REQUIRE(slab.id_at(index) == id);
      }
      if (!dead.empty()) REQUIRE(slab.get(dead[random.below(dead.size())]) == nullptr);
    }
    for (const SlabId id : dead) REQUIRE(slab.get(id) == nullptr);
  });
}
