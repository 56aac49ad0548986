// SPDX-License-Identifier: Apache-2.0
// The two policies of loss detection, each given the same evidence: what reordering, a request and
// several lanes do to their verdicts.
#include <catch2/catch.hpp>

#include "proto/path/loss_rule.hpp"

namespace hawser::test {
namespace {

using proto::DoubtedPacket;
using proto::Duration;
using proto::kNever;
using proto::LossVerdict;
using proto::microseconds;
using proto::OrderAndTime;
using proto::PathEvidence;
using proto::Reordering;
using proto::ResponseTime;
using proto::Time;
using proto::TimeAlone;

constexpr Time kSent{1000000};
constexpr Duration kGranularity = microseconds(200);

// A path whose answers take 80 us, and a packet of it.
struct Scene {
  Scene() {
    for (int i = 0; i < 100; ++i) response.sample(microseconds(80));
  }

  [[nodiscard]] PathEvidence path(Duration age, bool several_lanes, bool keeps_order) const {
    return {.response = response,
            .reordering = reordering,
            .now = kSent + age,
            .newest = kSent + microseconds(1),
            .granularity = kGranularity,
            .reorder_packets = 3,
            .several_lanes = several_lanes,
            .keeps_order = keeps_order};
  }
  [[nodiscard]] Duration overdue() const {
    return proto::unordered_patience(response, kGranularity);
  }

  ResponseTime response;
  Reordering reordering;
};

[[nodiscard]] DoubtedPacket overtaken_by(std::uint64_t numbers, bool requested = false) {
  return {.sent = kSent, .departed = kSent, .behind = numbers, .requested = requested};
}

TEMPLATE_TEST_CASE("loss_rule__each_says_lost_when_an_answer_is_overdue", "[L2]", OrderAndTime,
                   TimeAlone) {
  const Scene at;
  const DoubtedPacket requested = overtaken_by(0, true);
  const Duration almost = at.overdue() - Duration{1};
  const LossVerdict young = TestType(at.path(almost, false, true)).judge(requested);
  CHECK_FALSE(young.lost);
  CHECK(young.ask_again == kSent + at.overdue());
  const LossVerdict old = TestType(at.path(at.overdue(), false, true)).judge(requested);
  CHECK(old.lost);
  CHECK(old.ask_again == kNever);
  CHECK_FALSE(old.by_order);
}

TEST_CASE("loss_rule__order_shows_a_loss_at_once_and_time_alone_waits", "[L1]") {
  const Scene at;
  for (std::uint64_t behind = 1; behind < 6; ++behind) {
    INFO(behind << " behind");
    const PathEvidence path = at.path(microseconds(10), false, true);
    const LossVerdict verdict = OrderAndTime(path).judge(overtaken_by(behind));
    CHECK(verdict.lost == (behind >= 3));
    CHECK(verdict.by_order);
    CHECK_FALSE(TimeAlone(path).judge(overtaken_by(behind)).lost);
  }
}

// The receiver requests what is late, and says so once it has lost patience itself.
TEST_CASE("loss_rule__a_request_makes_one_later_packet_enough", "[L1]") {
  const Scene at;
  const OrderAndTime rule(at.path(microseconds(10), false, true));
  CHECK_FALSE(rule.judge(overtaken_by(1)).lost);
  CHECK(rule.judge(overtaken_by(1, true)).lost);
  CHECK_FALSE(rule.judge(overtaken_by(0, true)).lost);
}

TEST_CASE("loss_rule__a_path_that_reordered_is_judged_by_time", "[L2]") {
  const Scene at;
  const PathEvidence path = at.path(microseconds(10), false, false);
  const LossVerdict verdict = OrderAndTime(path).judge(overtaken_by(100));
  CHECK_FALSE(verdict.lost);
  CHECK_FALSE(verdict.by_order);
  CHECK(verdict.ask_again == TimeAlone(path).judge(overtaken_by(100)).ask_again);
}

TEST_CASE("loss_rule__over_several_lanes_the_time_between_departures_decides", "[L15]") {
  const Scene at;
  const Duration window = at.reordering.window(at.response, kGranularity);
  PathEvidence path = at.path(window, true, false);
  path.newest = kSent + window;
  CHECK_FALSE(OrderAndTime(path).judge(overtaken_by(100)).lost);
  path.newest = kSent + window + Duration{1};
  CHECK(OrderAndTime(path).judge(overtaken_by(1)).lost);
  CHECK_FALSE(OrderAndTime(path).judge(overtaken_by(0, true)).lost);  // nothing overtook it
  CHECK_FALSE(TimeAlone(path).judge(overtaken_by(100)).lost);

  // A request shortens the wait to the age that an answer takes.
  const Duration asked = at.reordering.asked(at.response);
  CHECK(OrderAndTime(at.path(asked, true, false)).judge(overtaken_by(1, true)).lost);
  CHECK_FALSE(OrderAndTime(at.path(asked, true, false)).judge(overtaken_by(1)).lost);
  const Duration almost = asked - Duration{1};
  CHECK_FALSE(OrderAndTime(at.path(almost, true, false)).judge(overtaken_by(1, true)).lost);
}

}  // namespace
}  // namespace hawser::test
