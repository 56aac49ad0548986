// Reads in vain, and the processor. The provider's yields and waits come here, as the program's own
// sched_yield and ppoll go before libc's.
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <thread>

#include "test/plugin/ofi/scene.hpp"

using namespace hawser::test;

namespace {

std::atomic<int> yields{0};
std::atomic<int> taken_us{0};  // by who has the processor meanwhile
std::atomic<int> blocks{0};
std::atomic<int> woken{0};  // of these, by a descriptor

void spin(std::chrono::microseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

// Longer than from one read to the next in a loop.
void compute() { spin(std::chrono::microseconds(200)); }

}  // namespace

extern "C" int sched_yield() noexcept {
  ++yields;
  spin(std::chrono::microseconds(taken_us));
  return static_cast<int>(::syscall(SYS_sched_yield));
}

extern "C" int ppoll(pollfd* fds, nfds_t count, const timespec* timeout, const sigset_t* mask) {
  constexpr std::size_t kMaskBytes = 8;  // as the kernel has it
  ++blocks;
  timespec left = timeout != nullptr ? *timeout : timespec{};  // the kernel writes to it
  timespec* const limit = timeout != nullptr ? &left : nullptr;
  const int ready = static_cast<int>(::syscall(SYS_ppoll, fds, count, limit, mask, kMaskBytes));
  woken += ready > 0 ? 1 : 0;
  return ready;
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
TEST_CASE("IdleReads__beside_others_they_block_and_a_message_ends_that", "[long]") {
  const Variables more({{"FI_HAWSER_SPIN_US", "20"}});
  Pair pair;
  fi_cq_tagged_entry entry{};
  const auto read_until = [&](auto&& done) {
    const HangLimit limit;
    while (!done() && !limit.is_over()) (void)fi_cq_read(pair.a.cq.get(), &entry, 1);
    return done();
  };
  // Whoever wants the processor has it for 50 us of each yield. From the first one that shows it on
  // there are as many reads that block as the yield has granted, before the next one.
  taken_us = 50;
  yields = 0;
  REQUIRE(read_until([] { return yields >= 1; }));
  int granted = 16;
  for (int i = 0; i < 3; ++i, granted *= 2) {
    blocks = 0;
    const int before = yields;
    REQUIRE(read_until([&] { return yields > before; }));
    CHECK(blocks >= granted);
  }
  // Who reads another queue in between waits for either.
  blocks = 0;
  yields = 0;
  REQUIRE(read_until([&] {
    (void)fi_cq_read(pair.b.cq.get(), &entry, 1);
    return yields >= 3;
  }));
  CHECK(blocks == 0);
  // A message ends such a read.
  std::array<char, 8> in{}, out{};
  REQUIRE(fi_trecv(pair.a.ep.get(), in.data(), in.size(), nullptr, pair.to_b, 1, 0, &in) == 0);
  std::atomic<bool> is_over{false};
  std::thread sender([&] {
    while (!is_over) {
      const int before = blocks;
      while (!is_over && blocks == before) std::this_thread::yield();
      (void)fi_tinject(pair.b.ep.get(), out.data(), out.size(), pair.to_a, 2);
    }
  });
  woken = 0;
  CHECK(read_until([] { return woken >= 3; }));
  is_over = true;
  sender.join();
  taken_us = 0;
}
