#include "engine/idle_clock.hpp"

#include <catch2/catch.hpp>

namespace hawser::engine {
namespace {

using Advice = IdleClock::Advice;
using proto::Time;

TEST_CASE("IdleClock__spins_then_yields_then_blocks") {
  Tunables tunables;
  tunables.spin_us = 20;
  tunables.yield_us = 100;
  IdleClock idle(tunables);
  CHECK(idle.pause(Time{1'000'000}) == Advice::spin);
  CHECK(idle.pause(Time{1'019'999}) == Advice::spin);
  CHECK(idle.pause(Time{1'020'000}) == Advice::yield);
  CHECK(idle.pause(Time{1'119'999}) == Advice::yield);
  CHECK(idle.pause(Time{1'120'000}) == Advice::block);
  CHECK(idle.pause(Time{9'000'000}) == Advice::block);
}

TEST_CASE("IdleClock__something_to_do_starts_it_anew") {
  Tunables tunables;
  tunables.spin_us = 20;
  IdleClock idle(tunables);
  CHECK(idle.pause(Time{1'000'000}) == Advice::spin);
  CHECK(idle.pause(Time{1'020'000}) == Advice::yield);
  idle.progressed();
  CHECK(idle.pause(Time{1'023'000}) == Advice::spin);
}

namespace {

Tunables spin_and_yield() {
  Tunables tunables;
  tunables.spin_us = 20;
  tunables.yield_us = 1000;
  return tunables;
}

// Idles from `from` until just after the spin, and has one yield take `took`.
Time after_a_yield(IdleClock& idle, Time from, proto::Duration took) {
  CHECK(idle.pause(from) != Advice::block);
  const Time yields = from + proto::microseconds(20);
  CHECK(idle.pause(yields) == Advice::yield);
  CHECK(idle.pause(yields + took) == Advice::yield);
  idle.progressed();
  return yields + took;
}

}  // namespace

TEST_CASE("IdleClock__yields_at_once_where_others_want_the_processor") {
  IdleClock idle(spin_and_yield());
  Time now = after_a_yield(idle, Time{1'000'000}, IdleClock::kLate - proto::Duration{1});
  CHECK(idle.pause(now) == Advice::spin);
  idle.progressed();
  now = after_a_yield(idle, now, IdleClock::kLate);
  CHECK(idle.pause(now) == Advice::yield);
}

TEST_CASE("IdleClock__spins_again_once_yields_come_back_soon") {
  IdleClock idle(spin_and_yield());
  Time now = after_a_yield(idle, Time{1'000'000}, IdleClock::kLate);
  for (unsigned i = 0; i <= IdleClock::kPrompt; ++i) {
    CHECK(idle.pause(now + proto::microseconds(i)) ==
          (i < IdleClock::kPrompt ? Advice::yield : Advice::spin));
  }
}

TEST_CASE("IdleClock__what_took_long_after_there_was_something_to_do_is_no_late_yield") {
  IdleClock idle(spin_and_yield());
  const Time now = after_a_yield(idle, Time{1'000'000}, proto::microseconds(3));
  CHECK(idle.pause(now + IdleClock::kLate * 10) == Advice::spin);
}

TEST_CASE("IdleClock__still_blocks_where_others_want_the_processor") {
  IdleClock idle(spin_and_yield());
  const Time now = after_a_yield(idle, Time{1'000'000}, IdleClock::kLate);
  CHECK(idle.pause(now) == Advice::yield);
  CHECK(idle.pause(now + proto::microseconds(1020)) == Advice::block);
}

TEST_CASE("IdleClock__zero_means_at_once") {
  Tunables tunables;
  tunables.spin_us = 0;
  tunables.yield_us = 0;
  IdleClock idle(tunables);
  CHECK(idle.pause(Time{5}) == Advice::block);
}

}  // namespace
}  // namespace hawser::engine
