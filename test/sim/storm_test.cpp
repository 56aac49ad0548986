// Storms of some seeds, and that a seed is a run.
#include <catch2/catch.hpp>

#include "sim/storm/storm.hpp"

namespace hawser::test {
namespace {

// Few, so that they are run in every preset; `hawser storm` runs as many as one likes.
constexpr std::uint64_t kSeeds = 150;

TEST_CASE("storm__of_the_first_seeds") {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const sim::StormOutcome outcome = sim::run_storm(sim::draw_plan(seed));
    INFO("seed " << seed);
    CHECK(outcome.verdict == "");
  }
}

TEST_CASE("storm__a_seed_is_a_run") {
  std::uint64_t last = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    const sim::StormOutcome one = sim::run_storm(sim::draw_plan(seed));
    const sim::StormOutcome two = sim::run_storm(sim::draw_plan(seed));
    CHECK(one.digest == two.digest);
    CHECK(one.events == two.events);
    CHECK(one.lasted == two.lasted);
    CHECK(one.digest != last);
    last = one.digest;
  }
}

}  // namespace
}  // namespace hawser::test
