// Lanes in turn, and those that came back marked.
#include <catch2/catch.hpp>
#include <vector>

#include "proto/lanes.hpp"

namespace hawser::test {
namespace {

using proto::kMostLanes;
using proto::MarkedLanes;

std::vector<int> take(MarkedLanes& lanes, std::uint16_t count, std::uint8_t& turn, int packets) {
  std::vector<int> taken;
  for (int i = 0; i < packets; ++i) taken.push_back(lanes.next(count, turn));
  return taken;
}

TEST_CASE("lanes__are_taken_in_turn", "[P18]") {
  MarkedLanes lanes;
  std::uint8_t turn = 254;  // which wraps
  CHECK(take(lanes, 4, turn, 6) == std::vector{2, 3, 0, 1, 2, 3});
  CHECK(take(lanes, 1, turn, 2) == std::vector{0, 0});
}

TEST_CASE("lanes__that_are_marked_are_passed_over_once", "[P19]") {
  MarkedLanes lanes;
  std::uint8_t turn = 0;
  lanes.mark(1);
  lanes.mark(1);
  lanes.mark(2);
  CHECK(take(lanes, 4, turn, 6) == std::vector{0, 3, 0, 1, 2, 3});
  for (std::uint8_t lane = 0; lane < 4; ++lane) lanes.mark(lane);
  CHECK(take(lanes, 4, turn, 5) == std::vector{0, 1, 2, 3, 0});
  lanes.mark(kMostLanes - 1);
  turn = kMostLanes - 2;
  CHECK(take(lanes, kMostLanes, turn, 2) == std::vector{kMostLanes - 2, 0});
}

}  // namespace
}  // namespace hawser::test
