// SPDX-License-Identifier: Apache-2.0
// When strong operations may go, beside a plain model of it.
#include "proto/message/channel_order.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <utility>
#include <vector>

namespace hawser::proto {
namespace {

using Verdict = ChannelOrder::Verdict;

struct Scene {
  Slab<OneSidedSend> operations{256};
  OrderedChannels channels;
  ChannelOrder order{operations, 32};
  std::vector<std::pair<std::uint32_t, bool>> released;  // and whether it must fail

  Verdict post(std::uint16_t channel, bool strong, std::uint32_t& index) {
    SlabId id;
    REQUIRE(operations.try_allocate(id) != nullptr);
    index = id.index;
    const Verdict verdict = order.post(channels, channel, index, strong);
    if (verdict == Verdict::no_place) operations.free(index);
    return verdict;
  }
  std::uint32_t posted(std::uint16_t channel, bool strong, Verdict expected) {
    std::uint32_t index = 0;
    CHECK(post(channel, strong, index) == expected);
    return index;
  }
  void end(std::uint32_t index, bool ok = true) {
    order.end(channels, index, ok,
              [&](std::uint32_t next, bool fails) { released.emplace_back(next, fails); });
    operations.free(index);
  }
};

TEST_CASE("ChannelOrder__weak_operations_wait_for_nothing", "[O30]") {
  Scene at;
  const auto strong = at.posted(1, true, Verdict::go);  // nothing is before it
  const auto weak = at.posted(1, false, Verdict::go);
  at.end(strong);
  at.end(weak);
  CHECK(at.released.empty());
  CHECK(at.order.channels() == 0);
}

TEST_CASE("ChannelOrder__a_strong_one_waits_for_all_before_it_and_for_none_after_it", "[O31]") {
  Scene at;
  const auto a = at.posted(1, false, Verdict::go);
  const auto b = at.posted(1, false, Verdict::go);
  const auto strong = at.posted(1, true, Verdict::held);
  const auto after = at.posted(1, false, Verdict::go);
  at.end(b);
  at.end(after);
  CHECK(at.released.empty());
  at.end(a);
  CHECK(at.released == std::vector{std::pair{strong, false}});
  at.end(strong);
  CHECK(at.order.channels() == 0);
}

TEST_CASE("ChannelOrder__channels_do_not_wait_for_each_other", "[O31]") {
  Scene at;
  const auto a = at.posted(1, false, Verdict::go);
  const auto strong = at.posted(2, true, Verdict::go);
  at.end(a);
  at.end(strong);
  CHECK(at.released.empty());
}

TEST_CASE("ChannelOrder__after_a_failure_strong_ones_fail_until_it_was_told", "[O32][O34]") {
  Scene at;
  const auto a = at.posted(1, false, Verdict::go);
  const auto first = at.posted(1, true, Verdict::held);
  const auto second = at.posted(1, true, Verdict::held);
  at.end(a, false);
  REQUIRE(at.released == std::vector{std::pair{first, true}});
  at.end(first, false);
  REQUIRE(at.released.size() == 2);
  CHECK(at.released[1] == std::pair{second, true});
  at.end(second, false);
  CHECK(at.order.channels() == 1);  // it remembers the failure
  const auto flush = at.posted(1, true, Verdict::go);
  CHECK(at.order.tell_failure(flush));
  CHECK_FALSE(at.order.tell_failure(flush));
  at.end(flush);
  CHECK(at.order.channels() == 0);
}

TEST_CASE("ChannelOrder__a_later_failure_fails_none_that_was_posted_before", "[O32][O33]") {
  Scene at;
  const auto a = at.posted(1, false, Verdict::go);
  const auto strong = at.posted(1, true, Verdict::held);
  const auto later = at.posted(1, false, Verdict::go);
  const auto flush = at.posted(1, true, Verdict::held);
  at.end(later, false);
  CHECK(at.released.empty());
  at.end(a);
  REQUIRE(at.released == std::vector{std::pair{strong, false}});
  at.end(strong);
  REQUIRE(at.released.size() == 2);
  CHECK(at.released[1] == std::pair{flush, true});
  CHECK(at.order.tell_failure(flush));
  at.end(flush);
  CHECK(at.order.channels() == 0);
}

TEST_CASE("ChannelOrder__a_flush_tells_no_failure_behind_it", "[O33]") {
  Scene at;
  const auto a = at.posted(1, false, Verdict::go);
  const auto first = at.posted(1, true, Verdict::held);
  at.end(at.posted(1, false, Verdict::go), false);
  at.end(a);
  REQUIRE(at.released == std::vector{std::pair{first, false}});
  CHECK_FALSE(at.order.tell_failure(first));
  at.end(first);
  const auto second = at.posted(1, true, Verdict::go);
  CHECK(at.order.tell_failure(second));
  at.end(second);
  CHECK(at.order.channels() == 0);
}

TEST_CASE("ChannelOrder__has_limits_of_channels_and_of_what_is_held", "[O34]") {
  Scene at;
  for (std::uint16_t channel = 0; channel < ChannelOrder::kMostChannels; ++channel) {
    at.posted(channel, false, Verdict::go);
  }
  at.posted(100, false, Verdict::no_place);
  for (std::uint32_t i = 0; i < ChannelOrder::kMostHeld; ++i) at.posted(3, true, Verdict::held);
  at.posted(3, true, Verdict::no_place);
  at.posted(3, false, Verdict::go);
}

TEST_CASE("ChannelOrder__the_end_of_a_session_ends_what_is_held", "[O33]") {
  Scene at;
  const auto a = at.posted(1, false, Verdict::go);
  const auto strong = at.posted(1, true, Verdict::held);
  const auto other = at.posted(2, false, Verdict::go);
  std::vector<std::uint32_t> failed;
  at.order.drop(at.channels, [&](std::uint32_t index) { failed.push_back(index); });
  CHECK(failed == std::vector{strong});
  CHECK_FALSE(at.order.has_place(a));
  CHECK_FALSE(at.order.has_place(strong));
  for (const std::uint32_t index : {a, strong, other}) at.end(index, false);
  CHECK(at.released.empty());
  CHECK(at.order.channels() == 0);
}

TEST_CASE("ChannelOrder__a_strong_one_waits_for_what_an_earlier_session_has_left",
          "[O31][O33][O49]") {
  Scene at;
  const auto a = at.posted(1, false, Verdict::go);
  const auto held = at.posted(1, true, Verdict::held);
  const auto b = at.posted(1, false, Verdict::go);
  at.order.drop(at.channels, [](std::uint32_t) {});
  at.end(held, false);
  const auto weak = at.posted(1, false, Verdict::go);
  const auto flush = at.posted(1, true, Verdict::held);
  const auto later = at.posted(1, true, Verdict::held);
  at.end(weak);
  at.end(b, false);
  CHECK(at.released.empty());
  at.end(a);
  REQUIRE(at.released == std::vector{std::pair{flush, false}});  // b's failure counts no more
  CHECK_FALSE(at.order.tell_failure(flush));
  at.end(flush);
  REQUIRE(at.released.size() == 2);
  CHECK(at.released[1] == std::pair{later, false});
  at.end(later);
  CHECK(at.order.channels() == 0);
}

// The model keeps each channel's operations in the order in which they were posted. A strong one
// may go when none is before it.
TEST_CASE("ChannelOrder__is_as_the_model_says", "[O31]") {
  struct Known {
    std::uint32_t index;
    bool strong;
    bool went;
  };
  for (unsigned seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    Scene at;
    std::vector<Known> model[3];
    for (int step = 0; step < 400; ++step) {
      const auto channel = static_cast<std::uint16_t>(random() % 3);
      std::vector<Known>& all = model[channel];
      if (all.size() < 60 && random() % 2 == 0) {
        const bool strong = random() % 3 == 0;
        std::uint32_t index = 0;
        const Verdict verdict = at.post(channel, strong, index);
        const bool waits = strong && !all.empty();
        REQUIRE(verdict == (waits ? Verdict::held : Verdict::go));
        all.push_back({index, strong, !waits});
        continue;
      }
      std::vector<std::size_t> under_way;
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (all[i].went) under_way.push_back(i);
      }
      if (under_way.empty()) {
        REQUIRE(all.empty());
        continue;
      }
      const std::size_t ended = under_way[random() % under_way.size()];
      const std::uint32_t index = all[ended].index;
      all.erase(all.begin() + static_cast<std::ptrdiff_t>(ended));
      at.released.clear();
      at.end(index);
      // Only the first can have nothing before it.
      std::vector<std::pair<std::uint32_t, bool>> expected;
      if (!all.empty() && !all.front().went) {
        expected.emplace_back(all.front().index, false);
        all.front().went = true;
      }
      REQUIRE(at.released == expected);
    }
  }
}

}  // namespace
}  // namespace hawser::proto
