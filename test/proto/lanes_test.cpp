// Which lane is next: proven ones, idle ones, those with little under way; and marks.
#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <vector>

#include "proto/lanes.hpp"
#include "test/support/seeded.hpp"

namespace hawser::test {
namespace {

using proto::kMostLanes;
using proto::Lanes;
using proto::Random;

std::vector<int> take(Lanes& lanes, std::uint16_t count, std::uint8_t& turn, int packets) {
  std::vector<int> taken;
  for (int i = 0; i < packets; ++i) taken.push_back(lanes.take(count, turn));
  return taken;
}

TEST_CASE("lanes__are_taken_in_turn", "[P18]") {
  Lanes lanes;
  std::uint8_t turn = 254;  // which wraps
  CHECK(take(lanes, 4, turn, 6) == std::vector{2, 3, 0, 1, 2, 3});
  CHECK(take(lanes, 1, turn, 2) == std::vector{0, 0});
}

TEST_CASE("lanes__that_are_marked_are_passed_over_once", "[P19]") {
  Lanes lanes;
  std::uint8_t turn = 0;
  lanes.mark(1);
  lanes.mark(1);
  lanes.mark(2);
  CHECK(take(lanes, 4, turn, 2) == std::vector{0, 3});
  CHECK(take(lanes, 4, turn, 2) == std::vector{1, 2});
  for (std::uint8_t lane = 0; lane < 4; ++lane) lanes.mark(lane);
  CHECK(take(lanes, 4, turn, 5) == std::vector{3, 0, 1, 2, 3});
  Lanes all;
  all.mark(kMostLanes - 1);
  turn = kMostLanes - 2;
  CHECK(take(all, kMostLanes, turn, 2) == std::vector{kMostLanes - 2, 0});
}

TEST_CASE("lanes__that_bring_back_unmarked_are_taken_again_first", "[P21]") {
  Lanes lanes;
  std::uint8_t turn = 0;
  CHECK(take(lanes, 8, turn, 5) == std::vector{0, 1, 2, 3, 4});
  lanes.ended(3, true);
  lanes.ended(1, true);
  CHECK(take(lanes, 8, turn, 3) == std::vector{1, 3, 5});  // in turn, then one that is idle
  lanes.ended(3, false);                                   // lost
  lanes.mark(5);
  lanes.ended(5, true);
  lanes.ended(0, true);
  lanes.mark(0);  // told too late
  CHECK(take(lanes, 8, turn, 1) == std::vector{6});
}

TEST_CASE("lanes__with_less_under_way_are_preferred", "[P21]") {
  Lanes lanes;
  std::uint8_t turn = 0;
  CHECK(take(lanes, 4, turn, 6) == std::vector{0, 1, 2, 3, 0, 1});
  turn = 0;
  CHECK(take(lanes, 4, turn, 2) == std::vector{2, 3});
  CHECK(take(lanes, 4, turn, 2) == std::vector{0, 1});  // all have two: in turn
  lanes.ended(3, true);                                 // of three that counted as two, or of two
  CHECK(take(lanes, 4, turn, 1) == std::vector{3});
}

TEST_CASE("lanes__of_which_none_is_known_to_be_used_are_unharmed_by_what_ends") {
  Lanes lanes;
  std::uint8_t turn = 0;
  lanes.ended(2, true);
  CHECK(take(lanes, 4, turn, 4) == std::vector{0, 1, 2, 3});
}

// Whatever happens, a lane is one of those that there are, and with no more under way than lanes
// none is given a second packet while another is idle and unmarked.
TEST_CASE("lanes__model", "[P21]") {
  for_each_seed(60, [](Random& random) {
    const auto count = static_cast<std::uint16_t>(1u << random.below(8));
    Lanes lanes;
    std::uint8_t turn = static_cast<std::uint8_t>(random.below(256));
    std::vector<int> under_way(count, 0);
    std::deque<std::uint8_t> packets;
    for (int step = 0; step < 2000; ++step) {
      if (packets.size() < count && random.chance(0.5)) {
        const bool any_idle = std::count(under_way.begin(), under_way.end(), 0) > 0;
        const std::uint8_t lane = lanes.take(count, turn);
        REQUIRE(lane < count);
        if (any_idle && count > 1) REQUIRE(under_way[lane] == 0);
        ++under_way[lane];
        packets.push_back(lane);
      } else if (!packets.empty()) {
        std::swap(packets.front(), packets[random.below(packets.size())]);
        --under_way[packets.front()];
        lanes.ended(packets.front(), random.chance(0.9));
        packets.pop_front();
      }
    }
  });
}

}  // namespace
}  // namespace hawser::test
