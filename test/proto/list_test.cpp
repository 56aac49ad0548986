// SPDX-License-Identifier: Apache-2.0
#include "proto/base/list.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <span>
#include <vector>

#include "test/support/seeded.hpp"

namespace {

using hawser::proto::IndexList;
using hawser::proto::kNoIndex;
using hawser::proto::ListLink;
using hawser::proto::Random;
using hawser::proto::Slab;

struct Item {
  ListLink red;
  ListLink blue;
};
using RedList = IndexList<Item, &Item::red>;
using BlueList = IndexList<Item, &Item::blue>;
using Model = std::vector<std::uint32_t>;

template <class List, class Items>
void check_same(const List& list, const Items& items, const Model& model) {
  Model forward;
  list.for_each(items, [&](std::uint32_t index) { forward.push_back(index); });
  REQUIRE(forward == model);
  REQUIRE(list.empty() == model.empty());
  REQUIRE(list.front() == (model.empty() ? kNoIndex : model.front()));
  REQUIRE(list.back() == (model.empty() ? kNoIndex : model.back()));
}

// One random operation on a list and its model. `taken` if a list of this link holds the item.
template <class List, class Items>
void step(Random& random, List& list, Items& items, Model& model, bool taken, std::uint32_t index) {
  const auto at = std::find(model.begin(), model.end(), index);
  const std::uint64_t action = random.below(5);
  if (action == 4) {
    const std::uint32_t expected = model.empty() ? kNoIndex : model.front();
    REQUIRE(list.pop_front(items) == expected);
    if (!model.empty()) model.erase(model.begin());
  } else if (at != model.end()) {
    list.remove(items, index);
    model.erase(at);
  } else if (taken) {
    return;
  } else if (action == 0) {
    list.push_front(items, index);
    model.insert(model.begin(), index);
  } else if (action == 1 && !model.empty()) {
    const std::size_t place = random.below(model.size());
    list.insert_before(items, model[place], index);
    model.insert(model.begin() + static_cast<std::ptrdiff_t>(place), index);
  } else {
    list.push_back(items, index);
    model.push_back(index);
  }
}

}  // namespace

TEST_CASE("list: model, with objects on lists of both links at once") {
  hawser::test::for_each_seed(50, [](Random& random) {
    std::array<Item, 12> items{};
    std::array<RedList, 2> red;
    std::array<Model, 2> red_model;
    BlueList blue;
    Model blue_model;
    for (int i = 0; i < 500; ++i) {
      const auto index = static_cast<std::uint32_t>(random.below(items.size()));
      if (random.chance(0.3)) {
        step(random, blue, items, blue_model, BlueList::contains(items, index), index);
      } else {
        const std::size_t which = random.below(2);
        step(random, red[which], items, red_model[which], RedList::contains(items, index), index);
      }
      for (std::size_t which = 0; which < 2; ++which) {
        check_same(red[which], items, red_model[which]);
      }
      check_same(blue, items, blue_model);
      for (std::uint32_t k = 0; k < items.size(); ++k) {
        const bool on_red = std::count(red_model[0].begin(), red_model[0].end(), k) +
                                std::count(red_model[1].begin(), red_model[1].end(), k) >
                            0;
        REQUIRE(RedList::contains(items, k) == on_red);
      }
    }
  });
}

TEST_CASE("list: for_each lets its visitor remove what it is given") {
  std::array<Item, 6> items{};
  RedList list;
  for (std::uint32_t i = 0; i < 6; ++i) list.push_back(items, i);
  list.for_each(items, [&](std::uint32_t index) {
    if (index % 2 == 0) list.remove(items, index);
  });
  check_same(list, items, {1, 3, 5});
}

TEST_CASE("list: works on slabs and on spans") {
  Slab<Item> slab(2);
  RedList list;
  list.push_back(slab, slab.index_of(*slab.try_allocate()));
  list.push_front(slab, slab.index_of(*slab.try_allocate()));
  CHECK(list.pop_front(slab) == 1);
  CHECK(list.pop_front(slab) == 0);

  std::array<Item, 2> items{};
  BlueList blue;
  blue.push_back(std::span<Item>(items), 1);
  CHECK(blue.front() == 1);
  CHECK(BlueList::next(std::span<const Item>(items), 1) == kNoIndex);
}
