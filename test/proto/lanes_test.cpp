// SPDX-License-Identifier: Apache-2.0
// Which lane comes next: proven ones, idle ones, those with few packets in flight; and marks.
#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <vector>

#include "proto/path/lanes.hpp"
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
  std::uint8_t turn = 254;  // will wrap
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

TEST_CASE("lanes__that_are_marked_are_not_taken_for_what_they_are_passed_over_for", "[P19]") {
  Lanes lanes;
  std::uint8_t turn = 0;
  CHECK(take(lanes, 8, turn, 4) == std::vector{0, 1, 2, 3});
  for (std::uint8_t lane = 4; lane < 8; ++lane) lanes.mark(lane);
  CHECK(take(lanes, 8, turn, 3) == std::vector{0, 4, 5});  // all idle lanes were passed over
  Lanes few;
  turn = 0;
  CHECK(take(few, 4, turn, 4) == std::vector{0, 1, 2, 3});
  few.mark(0);
  few.ended(0, true, false);
  CHECK(take(few, 4, turn, 2) == std::vector{1, 0});
}

TEST_CASE("lanes__that_bring_back_unmarked_are_taken_again_first", "[P21]") {
  Lanes lanes;
  std::uint8_t turn = 0;
  CHECK(take(lanes, 8, turn, 5) == std::vector{0, 1, 2, 3, 4});
  lanes.ended(3, true, false);
  lanes.ended(1, true, false);
  CHECK(take(lanes, 8, turn, 3) == std::vector{1, 3, 5});  // by turn, then an idle one
  lanes.ended(3, false, false);                            // lost
  lanes.ended(5, true, false);
  lanes.mark(5);
  lanes.ended(0, true, false);
  lanes.mark(0);  // the mark comes too late
  CHECK(take(lanes, 8, turn, 1) == std::vector{6});
}

TEST_CASE("lanes__with_less_under_way_are_preferred", "[P21]") {
  Lanes lanes;
  std::uint8_t turn = 0;
  CHECK(take(lanes, 4, turn, 6) == std::vector{0, 1, 2, 3, 0, 1});
  turn = 0;
  CHECK(take(lanes, 4, turn, 2) == std::vector{2, 3});
  CHECK(take(lanes, 4, turn, 2) == std::vector{0, 1});  // all have two in flight: by turn
  lanes.ended(3, true, false);  // lane 3 had two or three, which count the same
  CHECK(take(lanes, 4, turn, 1) == std::vector{3});
}

TEST_CASE("lanes__that_are_good_are_preferred_for_a_second_packet", "[P24]") {
  Lanes lanes;
  std::uint8_t turn = 0;
  CHECK(take(lanes, 4, turn, 4) == std::vector{0, 1, 2, 3});
  lanes.ended(1, true, true);
  lanes.ended(2, true, false);
  lanes.ended(3, true, false);
  lanes.mark(3);
  CHECK(take(lanes, 4, turn, 2) == std::vector{1, 2});  // one late packet counts for nothing yet
  CHECK(take(lanes, 4, turn, 1) == std::vector{2});     // and 3 is passed over
  CHECK(take(lanes, 4, turn, 3) == std::vector{3, 0, 1});
  lanes.ended(2, true, false);
  CHECK(take(lanes, 4, turn, 1) == std::vector{2});  // good again, with one packet in flight
  for (const std::uint8_t lane : {std::uint8_t{0}, std::uint8_t{2}}) lanes.ended(lane, true, true);
  CHECK(take(lanes, 4, turn, 2) == std::vector{3, 0});  // none is good
}

TEST_CASE("lanes__of_which_none_is_known_to_be_used_are_unharmed_by_what_ends") {
  Lanes lanes;
  std::uint8_t turn = 0;
  lanes.ended(2, true, false);
  CHECK(take(lanes, 4, turn, 4) == std::vector{0, 1, 2, 3});
}

// Applies the rules literally, one lane after the other.
class Model {
 public:
  explicit Model(std::uint16_t lanes) : lanes_(lanes) {}

  std::uint8_t take(std::uint8_t turn) {
    const std::size_t from = turn % lanes_.size();
    const auto first = [&](auto wanted) {
      std::size_t lane = from;
      for (std::size_t i = 0; i < lanes_.size(); ++i, lane = (lane + 1) % lanes_.size()) {
        if (wanted(lane)) return lane;
      }
      return lanes_.size();
    };
    std::size_t lane = first([&](std::size_t i) { return lanes_[i].is_proven(); });
    if (lane == lanes_.size()) {
      std::vector<Lane> passed = lanes_;
      for (int rule = 0; rule < 4 && lane == lanes_.size(); ++rule) {
        lane = first([&](std::size_t i) {
          const Lane& one = lanes_[i];
          const bool is_wanted = one.under_way == 0 || rule == 3 ||
                                 (rule == 2 && one.under_way == 1) ||
                                 (rule == 1 && one.under_way == 1 && one.good);
          if (is_wanted && one.marked) passed[i].marked = false;
          return is_wanted && !one.marked;
        });
      }
      lanes_ = passed;
    }
    if (lane == lanes_.size()) lane = from;
    Lane& taken = lanes_[lane];
    taken.good = taken.is_proven() && !taken.late;
    taken.under_way = std::min(taken.under_way + 1, 2);
    return static_cast<std::uint8_t>(lane);
  }

  void ended(std::uint8_t at, bool arrived, bool late) {
    Lane& lane = lanes_[at];
    if (lane.under_way == 0) return;
    --lane.under_way;
    lane.good = arrived && !lane.marked && (lane.under_way == 0 || !late);
    lane.late = late;
  }
  void mark(std::uint8_t at) {
    lanes_[at].marked = true;
    lanes_[at].good = false;
    lanes_[at].under_way = std::min(lanes_[at].under_way, 1);
  }

 private:
  struct Lane {
    int under_way = 0;  // up to two
    bool good = false;
    bool late = false;  // its last packet was
    bool marked = false;
    [[nodiscard]] bool is_proven() const { return good && under_way == 0; }
  };
  std::vector<Lane> lanes_;
};

TEST_CASE("lanes__model", "[P18][P19][P21][P24]") {
  for_each_seed(60, [](Random& random) {
    const auto count = static_cast<std::uint16_t>(2u << random.below(7));
    const double marks = random.chance(0.5) ? 0.02 : 0.3;
    const std::size_t most = 1 + random.below(3 * count);
    Lanes lanes;
    Model model(count);
    auto turn = static_cast<std::uint8_t>(random.below(256));
    std::deque<std::uint8_t> packets;
    for (int step = 0; step < 3000; ++step) {
      if (packets.size() < most && random.chance(0.5)) {
        const std::uint8_t expected = model.take(turn);
        REQUIRE(lanes.take(count, turn) == expected);
        REQUIRE(turn == (expected + 1) % count);
        packets.push_back(expected);
      } else if (!packets.empty()) {
        std::swap(packets.front(), packets[random.below(packets.size())]);
        const std::uint8_t lane = packets.front();
        packets.pop_front();
        const bool arrived = random.chance(0.9);
        const bool late = random.chance(0.3);
        lanes.ended(lane, arrived, late);
        model.ended(lane, arrived, late);
        if (arrived && random.chance(marks)) {
          lanes.mark(lane);
          model.mark(lane);
        }
      }
    }
  });
}

}  // namespace
}  // namespace hawser::test
