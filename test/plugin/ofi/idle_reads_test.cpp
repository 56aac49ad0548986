// SPDX-License-Identifier: Apache-2.0
// The cost of reads that find nothing. The program's own sched_yield and timerfd_settime replace
// libc's, so the provider's calls come here.
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>

#include "test/plugin/ofi/scene.hpp"

using namespace hawser::test;

namespace {

std::atomic<int> yields{0};
std::atomic<int> timers_set{0};
std::atomic<int> taken_us{0};  // how long another thread holds the processor at a yield

void spin(std::chrono::microseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

// Takes longer than a loop takes from one read to the next.
void compute() { spin(std::chrono::microseconds(200)); }

}  // namespace

extern "C" int sched_yield() noexcept {
  ++yields;
  spin(std::chrono::microseconds(taken_us));
  return static_cast<int>(::syscall(SYS_sched_yield));
}

extern "C" int timerfd_settime(int fd, int flags, const itimerspec* set,
                               itimerspec* before) noexcept {
  ++timers_set;
  return static_cast<int>(::syscall(SYS_timerfd_settime, fd, flags, set, before));
}

// In a virtual machine setting a timer takes as long as ten messages.
TEST_CASE("IdleReads__set_no_timer_where_nobody_waits_for_a_descriptor") {
  const bool waits = GENERATE(false, true);
  Pair pair({.wait_obj = waits ? FI_WAIT_FD : FI_WAIT_NONE});
  timers_set = 0;
  std::array<char, 4> out{};
  for (int i = 0; i < 10; ++i) {
    REQUIRE(fi_trecv(pair.b.ep.get(), out.data(), 4, nullptr, pair.to_a, 1, 0, &out) == 0);
    REQUIRE(fi_tinject(pair.a.ep.get(), "abc", 4, pair.to_b, 1) == 0);
    REQUIRE(pair.next_b().answer == 1);
  }
  CHECK((timers_set > 0) == waits);
}

TEST_CASE("IdleReads__what_follows_a_read_in_vain_yields_soon_what_stands_alone_does_not") {
  const Variables more({{"FI_HAWSER_SPIN_US", "20"}});
  Pair pair({.counts = true});
  fi_poll_attr attr{};
  fid_poll* opened = nullptr;
  REQUIRE(fi_poll_open(pair.a.domain.get(), &attr, &opened) == 0);
  const Owned<fid_poll> set(opened);
  REQUIRE(fi_poll_add(set.get(), &pair.a.cq->fid, 0) == 0);
  std::array<void*, 1> contexts{};
  fi_cq_tagged_entry entry{};
  const std::array<std::function<void()>, 4> reads{
      [&] { (void)fi_cq_read(pair.a.cq.get(), &entry, 1); },
      [&] { (void)fi_cq_read(pair.a.cq.get(), nullptr, 0); },
      [&] { (void)fi_cntr_read(pair.a.sent.get()); },
      [&] { (void)fi_poll(set.get(), contexts.data(), 1); }};
  for (const auto& read : reads) {
    yields = 0;
    for (int i = 0; i < 5; ++i) {
      compute();
      read();
    }
    CHECK(yields == 0);
    for (const HangLimit limit; yields < 5 && !limit.is_over();) read();
    CHECK(yields >= 5);
  }
  REQUIRE(fi_poll_del(set.get(), &pair.a.cq->fid, 0) == 0);
}

// Turns under a sanitizer are too slow to follow each other closely.
TEST_CASE("IdleReads__beside_others_each_yields_until_yields_come_back_at_once", "[long]") {
  const Variables more({{"FI_HAWSER_SPIN_US", "1000"}});
  Pair pair;
  fi_cq_tagged_entry entry{};
  int reads = 0;
  const auto read_until = [&](auto&& done) {
    const HangLimit limit;
    bool is_done = false;
    for (reads = 0; !(is_done || limit.is_over()); ++reads) {
      (void)fi_cq_read(pair.a.cq.get(), &entry, 1);
      is_done = done();
    }
    return is_done;
  };
  // Another rank or a program that computes holds the processor for `taken_us` at each yield. Once
  // the provider has noticed, ten yields take ten reads, and not the reads of ten times 1 ms.
  // (A thread that takes the processor in between adds some more.)
  for (const int taken : {50, 2000}) {
    taken_us = taken;
    yields = 0;
    int since = 0;
    CHECK(read_until([&] {
      if (yields < 10) return false;
      const bool each = reads - since <= 20;
      since = reads;
      yields = 0;
      return each;
    }));
  }
  // Once the reads are alone again they spin: within half of spin_us there is no yield. (A read
  // that stands alone because this thread was away counts as a beginning.)
  taken_us = 0;
  auto since = std::chrono::steady_clock::now();
  CHECK(read_until([&, quiet = 0, last = 0]() mutable {
    const auto now = std::chrono::steady_clock::now();
    if (yields != last) {
      quiet = 0;
      last = yields;
      since = now;
    }
    return ++quiet >= 10 && now - since >= std::chrono::microseconds(500);
  }));
}
