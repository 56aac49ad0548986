// SPDX-License-Identifier: Apache-2.0
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

constexpr Time kStart{1'000'000};

}  // namespace

TEST_CASE("IdleClock__yields_at_once_where_others_want_the_processor") {
  IdleClock idle(spin_and_yield());
  idle.yielded(IdleClock::kLate - proto::Duration{1});
  CHECK(idle.pause(kStart) == Advice::spin);
  idle.yielded(IdleClock::kLate);
  CHECK(idle.pause(kStart + proto::microseconds(1)) == Advice::yield);
  // The next wait yields at once, too: other threads still want the processor when this wait ends.
  idle.progressed();
  CHECK(idle.pause(kStart + proto::microseconds(2)) == Advice::yield);
}

TEST_CASE("IdleClock__spins_again_once_yields_come_back_soon") {
  IdleClock idle(spin_and_yield());
  idle.yielded(IdleClock::kLate);
  for (unsigned i = 0; i < IdleClock::kPrompt; ++i) {
    CHECK(idle.pause(kStart) == Advice::yield);
    idle.yielded(proto::nanoseconds(500));
  }
  CHECK(idle.pause(kStart) == Advice::spin);
}

TEST_CASE("IdleClock__still_blocks_where_others_want_the_processor") {
  IdleClock idle(spin_and_yield());
  idle.yielded(IdleClock::kLate);
  CHECK(idle.pause(kStart) == Advice::yield);
  CHECK(idle.pause(kStart + proto::microseconds(1020)) == Advice::block);
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
