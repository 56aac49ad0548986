// Storms of many seeds, and that a seed is a run.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>

#include "sim/storm/storm.hpp"

namespace hawser::test {
namespace {

TEST_CASE("storm__seeds") {
  const char* from = std::getenv("STORM_FROM");
  const char* to = std::getenv("STORM_TO");
  const std::uint64_t first = from != nullptr ? std::strtoull(from, nullptr, 10) : 1;
  const std::uint64_t last = to != nullptr ? std::strtoull(to, nullptr, 10) : 100;
  std::uint64_t frames = 0, events = 0, failed = 0, turns = 0;
  std::map<std::string, int> bad;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    const sim::StormOutcome outcome = sim::run_storm(sim::draw_plan(seed));
    frames += outcome.frames;
    events += outcome.events;
    turns += outcome.turns;
    failed += outcome.failed_sessions > 0;
    if (!outcome.verdict.empty()) {
      ++bad[outcome.verdict];
      printf("%lu: %s\n", seed, outcome.verdict.c_str());
    }
  }
  WARN(frames << " frames " << events << " events " << turns << " turns, failed sessions in "
              << failed);
  CHECK(bad.empty());
}

}  // namespace
}  // namespace hawser::test
