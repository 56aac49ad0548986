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
  idle.progressed();
  CHECK(idle.pause(Time{9'000'000}) == Advice::spin);
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
