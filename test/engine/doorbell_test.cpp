// SPDX-License-Identifier: Apache-2.0
#include "engine/doorbell.hpp"

#include <poll.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>
#include <thread>

#include "engine/clock.hpp"
#include "engine/poll_set.hpp"

namespace hawser::engine {
namespace {

using proto::kNever;
using proto::milliseconds;
using proto::Time;

// Whether the descriptor is readable at this moment.
bool readable(const Doorbell& bell) {
  const Time before = monotonic_now();
  wait_readable(bell.descriptor(), before, before + proto::nanoseconds(1));
  pollfd probe{bell.descriptor(), POLLIN, 0};
  return ::poll(&probe, 1, 0) == 1;
}

TEST_CASE("Doorbell__rings_only_when_armed") {
  Doorbell bell;
  bell.ring();
  CHECK_FALSE(readable(bell));
  REQUIRE(bell.arm());
  CHECK(bell.arm());
  CHECK_FALSE(readable(bell));
  bell.ring();
  bell.ring();
  CHECK(readable(bell));
  CHECK_FALSE(bell.arm());
  bell.disarm();
  CHECK_FALSE(readable(bell));
  bell.ring();
  CHECK_FALSE(readable(bell));
  CHECK(bell.arm());
  bell.disarm();
  bell.ring();
  CHECK_FALSE(readable(bell));
}

TEST_CASE("PollSet__wakes_by_a_descriptor_of_the_set_or_by_time") {
  Doorbell first;
  Doorbell second;
  PollSet set;
  set.add(first.descriptor());
  set.add(second.descriptor());
  const Time start = monotonic_now();
  set.wait(start, start + milliseconds(20));
  CHECK(monotonic_now() - start >= milliseconds(20));

  REQUIRE(second.arm());
  second.ring();
  set.wait(monotonic_now(), kNever);  // would hang

  set.remove(second.descriptor());
  const Time again = monotonic_now();
  set.wait(again, again + milliseconds(5));
  CHECK(monotonic_now() - again >= milliseconds(5));
}

// A thread that sleeps whenever it finds nothing gets every item, however the two threads
// interleave: a lost wake-up would hang here. Before some items the waker waits until the other is
// about to sleep.
TEST_CASE("Doorbell__no_wake_up_is_lost") {
  Doorbell bell;
  std::atomic<std::uint64_t> published{0};
  std::atomic<std::uint64_t> sleeps_after{0};  // items seen before the last sleep
  constexpr std::uint64_t kItems = 10000;
  constexpr std::uint64_t kAsleepEach = 1000;
  std::thread waker([&] {
    for (std::uint64_t i = 1; i <= kItems; ++i) {
      while (i % kAsleepEach == 0 && sleeps_after.load() != i - 1) std::this_thread::yield();
      published.store(i, std::memory_order_relaxed);
      bell.ring();
      // Now and then let the sleeper finish its work, so that it does sleep.
      if (i % 16 == 0) std::this_thread::yield();
    }
  });
  std::uint64_t seen = 0;
  std::uint64_t slept = 0;
  while (seen < kItems) {
    if (const std::uint64_t now = published.load(std::memory_order_relaxed); now != seen) {
      seen = now;
      continue;
    }
    if (bell.arm() && published.load(std::memory_order_relaxed) == seen) {
      sleeps_after = seen;
      wait_readable(bell.descriptor(), Time{0}, kNever);
      ++slept;
    }
    bell.disarm();
  }
  waker.join();
  CHECK(seen == kItems);
  CHECK(slept >= kItems / kAsleepEach);
}

}  // namespace
}  // namespace hawser::engine
