// SPDX-License-Identifier: Apache-2.0
#include "proto/base/ring.hpp"

#include <catch2/catch.hpp>
#include <deque>
#include <memory>

#include "test/support/seeded.hpp"

using hawser::proto::Random;
using hawser::proto::Ring;

TEST_CASE("ring: the capacity is rounded up to a power of two") {
  CHECK(Ring<int>(1).capacity() == 1);
  CHECK(Ring<int>(5).capacity() == 8);
  CHECK(Ring<int>(64).capacity() == 64);
}

TEST_CASE("ring: model, through the wrap of its counters") {
  hawser::test::for_each_seed(50, [](Random& random) {
    Ring<std::uint64_t> ring(static_cast<std::uint32_t>(1 + random.below(40)));
    std::deque<std::uint64_t> model;
    const double bias = random.chance(0.5) ? 0.6 : 0.4;
    for (int step = 0; step < 1000; ++step) {
      if (random.chance(bias)) {
        const std::uint64_t value = random.next();
        const bool room = model.size() < ring.capacity();
        REQUIRE(ring.push(value) == room);
        if (room) model.push_back(value);
      } else if (!model.empty()) {
        REQUIRE(ring.pop() == model.front());
        model.pop_front();
      }
      if (random.chance(0.005)) {
        ring.clear();
        model.clear();
      }
      REQUIRE(ring.size() == model.size());
      REQUIRE(ring.empty() == model.empty());
      REQUIRE(ring.full() == (model.size() == ring.capacity()));
      if (model.empty()) continue;
      REQUIRE(ring.front() == model.front());
      REQUIRE(ring.back() == model.back());
      const std::size_t i = random.below(model.size());
      REQUIRE(ring.at(static_cast<std::uint32_t>(i)) == model[i]);
    }
  });
}

TEST_CASE("ring: elements are moved in and out") {
  Ring<std::unique_ptr<int>> ring(2);
  REQUIRE(ring.push(std::make_unique<int>(3)));
  CHECK(*ring.pop() == 3);
}
