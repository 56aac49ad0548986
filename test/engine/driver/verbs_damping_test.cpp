// SPDX-License-Identifier: Apache-2.0
// How long NICs that fail again and again are held down, in simulated time.
#include "engine/driver/verbs/verbs_damping.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <vector>

namespace hawser::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A NIC whose repair takes no time.
struct Flapping {
  explicit Flapping(VerbsDamping::Duration longest) : damping(longest) {}

  // Works for so long, fails, and comes up as soon as it may; returns the hold in between.
  milliseconds fails_after(VerbsDamping::Duration work) {
    now += work;
    damping.failed(now);
    const auto hold = damping.left(now);
    now += hold;
    CHECK(damping.left(now) == VerbsDamping::Duration::zero());
    damping.came_up(now);
    return std::chrono::duration_cast<milliseconds>(hold);
  }

  VerbsDamping damping;
  VerbsDamping::Time now{seconds(1000)};
};

}  // namespace

TEST_CASE("verbs damping: failures far apart are no reason for a hold") {
  Flapping nic(milliseconds(2500));
  CHECK(nic.fails_after(milliseconds(0)) == milliseconds(0));
  for (int i = 0; i < 100; ++i) {
    CHECK(nic.fails_after(VerbsDamping::kForgiven) == milliseconds(0));
  }
}

TEST_CASE("verbs damping: who fails as soon as he is up is held twice as long, up to the limit") {
  Flapping nic(milliseconds(2500));
  for (const int hold : {0, 100, 200, 400, 800, 1600, 2500, 2500, 2500}) {
    CHECK(nic.fails_after(milliseconds(1)) == milliseconds(hold));
  }
  // In one minute it comes up some thirty times, and not thousands of times.
  Flapping other(milliseconds(2500));
  int times = 0;
  for (const auto end = other.now + seconds(60); other.now < end; ++times) {
    (void)other.fails_after(milliseconds(1));
  }
  CHECK(times == 29);
}

TEST_CASE("verbs damping: what it has worked makes good, half a hold for each five seconds") {
  const auto after_many = [](seconds work) {
    Flapping nic(milliseconds(2500));
    for (int i = 0; i < 20; ++i) (void)nic.fails_after(milliseconds(1));
    return nic.fails_after(work);
  };
  CHECK(after_many(seconds(4)) == milliseconds(2500));
  CHECK(after_many(seconds(5)) == milliseconds(1600));
  CHECK(after_many(seconds(14)) == milliseconds(800));
  CHECK(after_many(seconds(25)) == milliseconds(100));
  CHECK(after_many(seconds(30)) == milliseconds(0));
  CHECK(after_many(seconds(1'000'000)) == milliseconds(0));
}

TEST_CASE("verbs damping: a port must stay up for as long as the hold, but is tried in the end") {
  VerbsDamping damping(seconds(2));
  VerbsDamping::Time now(seconds(1000));
  const auto at = [&](int ms) { return now + milliseconds(ms); };
  // After a first failure the driver doesn't watch the port for long.
  damping.failed(now);
  damping.port_came_up(at(30));
  CHECK(damping.left(at(30)) == milliseconds(0));
  damping.came_up(at(30));
  now = at(40);
  damping.failed(now);
  CHECK(damping.left(now) == milliseconds(100));
  damping.port_came_up(at(50));
  CHECK(damping.left(at(50)) == milliseconds(100));
  damping.port_came_up(at(90));
  CHECK(damping.left(at(90)) == milliseconds(100));
  for (int ms = 100; ms < 200; ++ms) damping.port_came_up(at(ms));
  CHECK(damping.left(at(199)) == milliseconds(1));
  CHECK(damping.left(at(200)) == milliseconds(0));
  damping.port_came_up(at(5000));  // the cable was out for a long time
  CHECK(damping.left(at(5000)) == milliseconds(0));
}

TEST_CASE("verbs damping: limits below the first hold, of nothing, and beyond all measure") {
  Flapping small(milliseconds(3));
  Flapping none(milliseconds(0));
  Flapping huge(std::chrono::hours(24));
  CHECK(small.fails_after(milliseconds(1)) == milliseconds(0));
  milliseconds longest{};
  for (int i = 0; i < 100; ++i) {
    CHECK(small.fails_after(milliseconds(1)) == milliseconds(3));
    CHECK(none.fails_after(milliseconds(1)) == milliseconds(0));
    longest = std::max(longest, huge.fails_after(milliseconds(1)));
  }
  CHECK(longest == VerbsDamping::kLongest);
}

TEST_CASE("verbs damping: whatever happens, a hold ends, within twice its limit") {
  std::mt19937 dice(7);
  const milliseconds limit(800);
  Flapping nic(limit);
  const auto chance = [&](int ms) {
    return milliseconds(std::uniform_int_distribution(0, ms)(dice));
  };
  for (int round = 0; round < 20'000; ++round) {
    nic.now += chance(round % 3 == 0 ? 30'000 : 10);
    nic.damping.failed(nic.now);
    const auto failed = nic.now;
    const auto hold = nic.damping.left(nic.now);
    REQUIRE(hold <= limit);
    while (nic.damping.left(nic.now) > milliseconds(0)) {
      nic.now += chance(100);
      nic.damping.port_came_up(nic.now);
      REQUIRE(nic.damping.left(nic.now) <= hold);
    }
    // This test looks at the NIC up to 100 ms late.
    REQUIRE(nic.now - failed <= 2 * hold + milliseconds(100));
    REQUIRE(nic.now - failed >= hold);
    nic.damping.came_up(nic.now);
  }
}

}  // namespace hawser::engine
