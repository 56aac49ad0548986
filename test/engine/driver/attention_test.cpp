// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/udp/attention.hpp"

#include <catch2/catch.hpp>
#include <vector>

namespace hawser::engine {
namespace {

using proto::Duration;
using proto::kNever;
using proto::microseconds;
using proto::Time;

constexpr Time kStart{1'000'000'000};
constexpr Duration kShort = microseconds(2);  // between turns

struct World {
  explicit World(std::size_t queues) {
    for (std::size_t i = 0; i < queues; ++i) attention.add();
  }
  // Takes a turn `after` the last one, in which the queues in `heard` deliver packets.
  bool turn(const std::vector<std::size_t>& heard = {}, Duration after = kShort,
            Time due = kNever) {
    now = now + after;
    const bool looks = attention.begin_turn(now, due);
    for (const std::size_t queue : heard) attention.heard(queue);
    return looks;
  }
  [[nodiscard]] std::vector<std::size_t> asked() const {
    std::vector<std::size_t> queues;
    for (std::size_t i = 0; i < attention.count(); ++i) {
      if (attention.asks(i)) queues.push_back(i);
    }
    CHECK(queues.size() == attention.asked());
    return queues;
  }
  Attention attention;
  Time now = kStart;
};

using Queues = std::vector<std::size_t>;

}  // namespace

TEST_CASE("Attention: where nothing was heard all are looked at, each turn") {
  World world(8);
  for (int i = 0; i < 3; ++i) {
    CHECK(world.turn());
    CHECK(world.asked().empty());
  }
}

TEST_CASE("Attention: after a turn that brought something all warm queues are asked") {
  World world(8);
  world.turn({2});
  world.turn({5});
  CHECK_FALSE(world.turn());
  CHECK(world.asked() == Queues{2, 5});
}

TEST_CASE("Attention: the queue by which things keep coming is asked, the others now and then") {
  World world(8);
  world.turn({2});
  world.turn({2});
  world.turn();
  Duration unasked = kShort * 2;
  for (int i = 0; i < 100; ++i) {
    if (i % 20 == 0) world.turn({2});  // stays warm
    const bool looks = world.turn();
    CHECK(world.asked() == Queues{2});
    unasked = looks ? Duration{} : unasked + kShort;
    CHECK(unasked <= Attention::kLookInterval + kShort);
  }
}

TEST_CASE("Attention: no queue is guessed where the last two times differ") {
  World world(8);
  world.turn({2});
  world.turn({4});
  world.turn();
  CHECK(world.turn());
  CHECK(world.asked().empty());
}

TEST_CASE("Attention: a queue that has been quiet for long is not warm") {
  World world(4);
  world.turn({1});
  world.turn({1});
  world.turn();
  CHECK(world.turn({}, Attention::kWarm));
  CHECK(world.asked().empty());
}

TEST_CASE("Attention: what the protocol has due makes it look at all") {
  World world(4);
  world.turn({1});
  world.turn({1});
  world.turn();
  CHECK_FALSE(world.turn({}, kShort, world.now + kShort + Duration{1}));
  CHECK(world.turn({}, kShort, world.now + kShort));
  CHECK(world.asked() == Queues{1});
}

TEST_CASE("Attention: nothing is left to look at where all are asked") {
  World world(2);
  world.turn({0, 1});
  CHECK_FALSE(world.turn({}, kShort, kStart));
  CHECK(world.asked() == Queues{0, 1});
}

}  // namespace hawser::engine
