// SPDX-License-Identifier: Apache-2.0
// Ranks over whole engines that lose a NIC and get it back: all find it out, and every sum is
// right.
#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "test/coll/engine_world.hpp"
#include "test/coll/job.hpp"
#include "test/support/hang_limit.hpp"

namespace hawser::test {
namespace {

using Bandwidths = std::vector<std::uint8_t>;

Bandwidths bandwidths_of(const EngineWorld& world, std::uint32_t rank) {
  const auto found = world.communicators[rank]->bandwidths();
  return {found.begin(), found.end()};
}

// Runs all-reduces until the ranks divide them by `wanted`.
void reduce_until(EngineWorld& world, proto::Random& random, const Bandwidths& wanted) {
  const HangLimit limit;
  while (bandwidths_of(world, 0) != wanted) {
    REQUIRE_FALSE(limit.is_over());
    Job job({.kind = JobKind::all_reduce, .ranks = world.ranks(), .count = 10'000}, random);
    for (auto& one : world.communicators) REQUIRE(job.start(*one) == Status::ok);
    const auto is_running = [&](std::uint32_t rank) {
      return world.communicators[rank]->test(job.request(rank)) == Status::again;
    };
    for (std::uint32_t rank = 0; rank < world.ranks();) {
      for (auto& router : world.routers) router->progress();
      if (!is_running(rank)) ++rank;
    }
    for (std::uint32_t rank = 0; rank < world.ranks(); ++rank) {
      REQUIRE(world.communicators[rank]->failure() == nullptr);
      REQUIRE(job.wrong(rank) == "");
      REQUIRE(bandwidths_of(world, rank) == bandwidths_of(world, 0));
    }
  }
}

TEST_CASE("lost NICs: ranks that follow bandwidths find a dead NIC, and its return") {
  EngineWorld world({.ranks = 4,
                     .faults = "loss=0.001",
                     .options = {.follow_bandwidths = true, .check_bytes = 0}});
  proto::Random random(1);
  REQUIRE(world.engine(2).inject_fault(1, "kill") == Status::ok);
  reduce_until(world, random, {16, 16, 8, 16});
  REQUIRE(world.engine(2).inject_fault(1, "revive") == Status::ok);
  reduce_until(world, random, {});
}

}  // namespace
}  // namespace hawser::test
