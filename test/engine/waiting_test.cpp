// SPDX-License-Identifier: Apache-2.0
// How endpoints wait: in wait, in a caller's event loop over fd(), and what idleness costs.
#include <poll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <thread>
#include <vector>

#include "engine/callers_loop.hpp"
#include "engine/clock.hpp"
#include "engine/deadlines.hpp"
#include "hawser/engine.hpp"
#include "test/engine/endpoint_pair.hpp"

namespace {

std::atomic<int> timers_set{0};

}  // namespace

// Replaces libc's function, and counts the calls.
extern "C" int timerfd_settime(int fd, int flags, const itimerspec* set,
                               itimerspec* before) noexcept {
  ++timers_set;
  return static_cast<int>(::syscall(SYS_timerfd_settime, fd, flags, set, before));
}

namespace hawser::engine {
namespace {

using proto::kNever;
using proto::milliseconds;
using proto::Time;

bool readable(int fd, int timeout_ms) {
  pollfd probe{fd, POLLIN, 0};
  return ::poll(&probe, 1, timeout_ms) == 1;
}

std::int64_t cpu_ns(int who) {
  rusage usage{};
  REQUIRE(::getrusage(who, &usage) == 0);
  const auto ns = [](const timeval& time) {
    return time.tv_sec * 1'000'000'000 + time.tv_usec * 1000;
  };
  return ns(usage.ru_utime) + ns(usage.ru_stime);
}

TEST_CASE("deadline_after__saturates") {
  STATIC_REQUIRE(deadline_after(Time{5}, 7) == Time{12});
  STATIC_REQUIRE(deadline_after(Time{5}, ~std::uint64_t{0}) == kNever);
  STATIC_REQUIRE(deadline_after(Time{5}, static_cast<std::uint64_t>(kNever.ns) - 5) == kNever);
  STATIC_REQUIRE(deadline_after(Time{5}, static_cast<std::uint64_t>(kNever.ns) - 6) < kNever);
}

TEST_CASE("CallersLoop__is_readable_when_the_time_has_come") {
  PollSet sources;
  CallersLoop loop(sources);
  Time now = monotonic_now();
  loop.wake_at(now, now);  // before anyone asks for the descriptor
  const int fd = loop.descriptor();
  CHECK(readable(fd, 0));  // the first time, whatever came before
  now = monotonic_now();
  loop.wake_at(now, kNever);
  CHECK_FALSE(readable(fd, 0));
  const Time due = now + milliseconds(20);
  loop.wake_at(now, due);
  loop.wake_at(now, due);
  CHECK(readable(fd, kHangLimitMs));
  CHECK(monotonic_now() >= due);
  // The same deadline again, after it has passed, makes the descriptor readable at once.
  loop.wake_at(now, kNever);
  loop.wake_at(monotonic_now(), due);
  CHECK(readable(fd, 0));
}

// In a virtual machine setting a timer takes as long as ten messages.
TEST_CASE("CallersLoop__keeps_a_timer_that_is_set_for_earlier") {
  PollSet sources;
  CallersLoop loop(sources);
  const int fd = loop.descriptor();
  const Time now = monotonic_now();
  timers_set = 0;
  for (int turn = 0; turn < 100; ++turn) loop.wake_at(now, now);  // readable already
  CHECK(timers_set == 0);
  for (int turn = 0; turn < 100; ++turn) loop.wake_at(now, now + milliseconds(20 + turn));
  loop.wake_at(now, kNever);
  CHECK(timers_set == 1);
  CHECK(readable(fd, kHangLimitMs));
  // The timer has fired. The last request holds from now on.
  loop.wake_at(monotonic_now(), kNever);
  CHECK(timers_set == 2);
  CHECK_FALSE(readable(fd, 0));
  // An earlier deadline sets the timer again.
  loop.wake_at(now, now + milliseconds(1'000'000));
  loop.wake_at(now, now + milliseconds(1));
  CHECK(timers_set == 4);
  CHECK(readable(fd, kHangLimitMs));
}

// An event loop drives both endpoints and knows nothing but their descriptors: whenever one is
// readable, it calls poll. If a wake-up were missing, the loop would stop for good.
TEST_CASE("Endpoint__fd_alone_moves_everything") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  constexpr std::size_t kMessages = 200;
  std::vector<std::vector<std::byte>> buffers(kMessages, std::vector<std::byte>(20'000));
  const std::vector<std::byte> data = pattern(20'000, 9);
  EndpointPair pair(setting, short_close(), 2, "loss=0.02,seed=3");
  std::array<Endpoint*, 2> endpoints = {pair.a.get(), pair.b.get()};
  std::array<pollfd, 2> fds{};
  for (std::size_t i = 0; i < 2; ++i) fds[i] = {endpoints[i]->fd(), POLLIN, 0};
  std::size_t posted = 0;
  std::array<std::size_t, 2> completed{};
  std::uint64_t polls = 0;
  while (completed[0] < kMessages || completed[1] < kMessages) {
    // Send a few at a time, so that there are pauses with nothing to do.
    if (posted < kMessages && completed[1] == posted) {
      for (int i = 0; i < 10 && posted < kMessages; ++i, ++posted) {
        post_receive(*pair.b, pair.a_of_b, 1, buffers[posted]);
        post_send(*pair.a, pair.b_of_a, 1, data);
      }
    }
    REQUIRE(::poll(fds.data(), fds.size(), kHangLimitMs) > 0);
    for (std::size_t i = 0; i < 2; ++i) {
      if (fds[i].revents == 0) continue;
      std::array<Completion, 3> some;
      completed[i] += endpoints[i]->poll(some);
      ++polls;
    }
  }
  CHECK(std::ranges::all_of(buffers, [&](const auto& buffer) { return buffer == data; }));
  // When all is quiet the descriptors are, too. A memory NIC has none, so the endpoint polls it.
  if (setting.driver == "udp") {
    std::array<Completion, 3> none;
    int quiet = 0;
    for (const HangLimit limit; !(quiet == 2 || limit.is_over());) {
      quiet = 0;
      for (std::size_t e = 0; e < 2; ++e) {
        endpoints[e]->poll(none);
        quiet += readable(fds[e].fd, 1) ? 0 : 1;
      }
    }
    CHECK(quiet == 2);
  }
}

TEST_CASE("Endpoint__wait_returns_after_its_timeout") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  EndpointPair pair(setting);
  Completion none;
  const Time start = monotonic_now();
  CHECK(pair.a->wait(std::span(&none, 1), 30'000'000) == 0);
  CHECK(monotonic_now() - start >= milliseconds(30));
  CHECK(pair.a->wait(std::span(&none, 1), 0) == 0);
}

TEST_CASE("Endpoint__waiting_for_nothing_costs_no_processor") {
  const unsigned threads = GENERATE(0u, 1u);
  CAPTURE(threads);
  EndpointPair pair({"udp", threads});
  Completion none;
  pair.a->wait(std::span(&none, 1), 50'000'000);  // the handshake
  const std::int64_t before = cpu_ns(RUSAGE_SELF);
  const Time start = monotonic_now();
  pair.a->wait(std::span(&none, 1), 500'000'000);
  const std::int64_t elapsed = (monotonic_now() - start).ns;
  // The rest of this process sleeps. A spinning thread would use all of the time, or twice that.
  CHECK(cpu_ns(RUSAGE_SELF) - before < elapsed / 4);
}

TEST_CASE("Endpoint__wait_is_woken_by_a_message_of_another_thread") {
  const std::string driver = GENERATE(as<std::string>{}, "memory", "udp");
  CAPTURE(driver);
  std::vector<std::byte> buffer(100);
  const std::vector<std::byte> data = pattern(100, 1);
  EndpointPair pair({driver, 1});
  for (int i = 0; i < 50; ++i) {
    post_receive(*pair.b, pair.a_of_b, 1, buffer);
    std::thread sender([&] { post_send(*pair.a, pair.b_of_a, 1, data); });
    Completion completion;
    REQUIRE(pair.b->wait(std::span(&completion, 1), kHangLimitNs) == 1);
    sender.join();
    REQUIRE(pair.a->wait(std::span(&completion, 1), kHangLimitNs) == 1);
  }
}

}  // namespace
}  // namespace hawser::engine
