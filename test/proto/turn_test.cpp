// SPDX-License-Identifier: Apache-2.0
#include "proto/base/turn.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <vector>

namespace hawser::proto {
namespace {

constexpr std::uint32_t kEvents = 4;

Tunables tunables() {
  Tunables tunables;
  tunables.late_wakeup_us = 100;
  tunables.max_operations = 8;
  return tunables;
}

constexpr Time at_us(std::int64_t us) { return Time{} + microseconds(us); }

// A pass whose first half takes `first_half`, after which the engine is asked to turn at `wake`.
void pass(Turn& turn, Time begin, Duration first_half, Time wake) {
  (void)turn.begin(begin);
  turn.look_into_rings();
  (void)turn.begin_second_half(begin + first_half);
  turn.end(wake);
}

TEST_CASE("Turn__now_never_goes_back") {
  Turn turn(tunables(), 1, kEvents);
  turn.call(at_us(50));
  turn.call(at_us(20));
  CHECK(turn.now() == at_us(50));
  (void)turn.begin(at_us(10));
  CHECK(turn.now() == at_us(50));
  (void)turn.begin_second_half(at_us(5));
  CHECK(turn.now() == at_us(50));
}

TEST_CASE("Turn__a_pass_that_comes_long_after_it_was_asked_for_is_late") {
  Turn turn(tunables(), 1, kEvents);
  pass(turn, at_us(1000), {}, at_us(2000));
  CHECK_FALSE(turn.is_late());  // nothing was asked for before the first
  SECTION("in time") {
    CHECK(turn.begin(at_us(2100)) == microseconds(100));
    CHECK_FALSE(turn.is_late());
    CHECK(turn.counters.late_turns == 0);
  }
  SECTION("late") {
    CHECK(turn.begin(at_us(2101)) == microseconds(101));
    CHECK(turn.is_late());
    CHECK(turn.counters.late_turns == 1);
    CHECK(turn.absence().since(at_us(1500)) == microseconds(101));
  }
  SECTION("a call asks for a pass at once") {
    turn.call(at_us(1200));
    turn.ask_for_pass();
    CHECK(turn.begin(at_us(1301)) == microseconds(101));
    CHECK(turn.is_late());
  }
  SECTION("what has progressed asks for a pass at once") {
    (void)turn.begin(at_us(2000));
    turn.look_into_rings();
    (void)turn.begin_second_half(at_us(2000));
    turn.progress();
    turn.end(at_us(9000));
    (void)turn.begin(at_us(2101));
    CHECK(turn.is_late());
  }
}

TEST_CASE("Turn__who_is_away_in_the_middle_of_a_pass_is_late_then_and_in_the_next_pass") {
  Turn turn(tunables(), 1, kEvents);
  pass(turn, at_us(1000), {}, at_us(2000));
  pass(turn, at_us(2000), microseconds(500), at_us(3000));
  CHECK(turn.is_late());
  (void)turn.begin(at_us(3000));
  CHECK(turn.is_late());
  turn.look_into_rings();
  CHECK(turn.begin_second_half(at_us(3010)) == microseconds(10));
  turn.end(at_us(4000));
  (void)turn.begin(at_us(4000));
  CHECK_FALSE(turn.is_late());
}

TEST_CASE("Turn__a_late_pass_postpones_a_timer_once") {
  Turn turn(tunables(), 1, kEvents);
  Timer timer;
  timer.arm(at_us(1500));
  pass(turn, at_us(1000), {}, at_us(2000));
  CHECK_FALSE(turn.postpones(timer, microseconds(7)));
  CHECK(timer.at() == at_us(1500));
  (void)turn.begin(at_us(5000));
  REQUIRE(turn.is_late());
  CHECK(turn.postpones(timer, microseconds(7)));
  CHECK(timer.at() == at_us(5007));
  CHECK_FALSE(turn.postpones(timer, microseconds(7)));
  CHECK(timer.at() == at_us(5007));
}

TEST_CASE("Turn__a_packet_arrived_between_the_passes_looks_into_the_rings") {
  Turn turn(tunables(), 1, kEvents);
  pass(turn, at_us(1000), {}, at_us(2000));
  (void)turn.begin(at_us(2000));
  turn.look_into_rings();
  turn.packet_arrived(Time{});  // the NIC does not know
  CHECK(turn.arrived() == at_us(1000));
  turn.packet_arrived(at_us(1700));
  CHECK(turn.arrived() == at_us(1700));
  turn.packet_arrived(at_us(99999));
  CHECK(turn.arrived() == at_us(2000));
}

TEST_CASE("Turn__the_newest_events_are_kept_and_numbers_tell_of_lost_ones") {
  Turn turn(tunables(), 1, kEvents);
  turn.call(at_us(3));
  for (std::uint8_t i = 0; i < 6; ++i) turn.emit({.nic = i});
  turn.warn({.kind = Event::Kind::peer_refused, .nic = 6});
  CHECK(turn.warns());
  CHECK(turn.last_warning().nic == 6);
  CHECK(turn.counters.events_lost == 3);
  std::array<Event, 8> events;
  REQUIRE(turn.poll_events(std::span(events).first(3)) == 3);
  CHECK(events[0].nic == 3);
  CHECK(events[0].number == 3);
  CHECK(events[0].time_ns == 3000);
  REQUIRE(turn.poll_events(events) == 1);
  CHECK(events[0].number == 6);
  (void)turn.begin(at_us(4));
  CHECK_FALSE(turn.warns());
}

TEST_CASE("Turn__trace_records_get_the_time") {
  Turn turn(tunables(), 1, kEvents);
  CHECK_FALSE(turn.tracing());
  std::vector<TraceRecord> records;
  turn.trace_to(
      [](void* context, const TraceRecord& record) {
        static_cast<std::vector<TraceRecord>*>(context)->push_back(record);
      },
      &records);
  REQUIRE(turn.tracing());
  turn.call(at_us(8));
  turn.trace({});
  REQUIRE(records.size() == 1);
  CHECK(records[0].time_ns == 8000);
}

}  // namespace
}  // namespace hawser::proto
