// SPDX-License-Identifier: Apache-2.0
// The threads and descriptors that endpoints bring into a program: which signals they take, which
// processors they use, and what a program that is executed gets of them.
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "engine/descriptor.hpp"
#include "engine/host/processors.hpp"
#include "test/engine/endpoint_pair.hpp"
#include "test/support/hang_limit.hpp"
#include "test/support/own_process_view.hpp"

namespace hawser::engine {
namespace {

using test::is_close_on_exec;
using test::open_descriptors;
using test::status_of;
using test::threads_of_process;

std::set<int> added(const std::set<int>& before, const std::set<int>& now) {
  std::set<int> more;
  std::ranges::set_difference(now, before, std::inserter(more, more.end()));
  return more;
}

const Setting kThreaded{"udp", 2};

// The threads that an endpoint pair has started.
struct ThreadedPair {
  std::set<int> before = threads_of_process();
  EndpointPair pair{kThreaded};
  std::set<int> threads = added(before, threads_of_process());
};

TEST_CASE("own_threads__block_all_signals") {
  ThreadedPair of;
  check_that_messages_pass(of.pair);
  REQUIRE(of.threads.size() >= 4);  // two of each engine
  for (const int thread : of.threads) {
    const std::string blocked = status_of(thread, "SigBlk");
    CAPTURE(thread, blocked, status_of(thread, "Name"));
    const std::uint64_t mask = std::stoull(blocked, nullptr, 16);
    for (int number = 1; number <= 64; ++number) {
      // The kernel lets nobody block two of them, and the C library keeps two for itself.
      if (number == SIGKILL || number == SIGSTOP || (number >= 32 && number < SIGRTMIN)) continue;
      CAPTURE(number);
      CHECK((mask >> (number - 1) & 1) == 1);
    }
  }
}

// A program that blocks a signal in its own threads reads it from a descriptor. A thread of the
// library that did not block it would get it instead, and the process would end. It does so only
// without Catch's handler, which gives this thread the time to read the signal first.
TEST_CASE("own_threads__leave_signals_to_the_programs_descriptor") {
  const ThreadedPair of;
  sigset_t term;
  sigset_t before;
  struct sigaction catchs {};
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  REQUIRE(::sigaction(SIGTERM, &usual, &catchs) == 0);
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  REQUIRE(::pthread_sigmask(SIG_BLOCK, &term, &before) == 0);
  {
    const Descriptor signals(::signalfd(-1, &term, SFD_CLOEXEC));
    REQUIRE(signals);
    for (int round = 0; round < 20; ++round) {
      REQUIRE(::kill(::getpid(), SIGTERM) == 0);
      pollfd polled{signals.get(), POLLIN, 0};
      REQUIRE(::poll(&polled, 1, kHangLimitMs) == 1);
      signalfd_siginfo info{};
      REQUIRE(::read(signals.get(), &info, sizeof info) == sizeof info);
      CHECK(info.ssi_signo == SIGTERM);
    }
  }
  REQUIRE(::pthread_sigmask(SIG_SETMASK, &before, nullptr) == 0);
  REQUIRE(::sigaction(SIGTERM, &catchs, nullptr) == 0);
}

TEST_CASE("own_threads__no_descriptor_is_left_to_a_program_that_is_executed") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  const std::set<int> before = open_descriptors();
  EndpointPair pair(setting);
  CHECK(pair.a->fd() >= 0);
  check_that_messages_pass(pair);
  const std::set<int> more = added(before, open_descriptors());
  CHECK_FALSE(more.empty());
  for (const int fd : more) {
    CAPTURE(fd);
    CHECK(is_close_on_exec(fd));
  }
}

TEST_CASE("own_threads__no_descriptor_and_no_thread_outlives_its_endpoint") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  { const EndpointPair first(setting); }  // what is made once for the process
  const std::set<int> descriptors = open_descriptors();
  const std::set<int> threads = threads_of_process();
  for (int round = 0; round < 25; ++round) {
    EndpointPair pair(setting);
    CHECK(pair.b->fd() >= 0);
    check_that_messages_pass(pair);
  }
  CHECK(open_descriptors() == descriptors);
  // The kernel may list a thread for a moment after pthread_join has returned.
  CHECK(test::comes_true([&] { return added(threads, threads_of_process()).empty(); }));
}

TEST_CASE("own_threads__stay_on_the_processors_of_the_thread_that_starts_them") {
  const std::vector<std::uint32_t> before = allowed_processors();
  REQUIRE_FALSE(before.empty());
  for (std::uint32_t turn = 0; turn < std::min<std::size_t>(before.size(), 4); ++turn) {
    REQUIRE(bind_to_processor(turn));
    const std::uint32_t bound = allowed_processors().front();
    {
      ThreadedPair of;
      check_that_messages_pass(of.pair);
      for (const int thread : of.threads) {
        CHECK(status_of(thread, "Cpus_allowed_list") == std::to_string(bound));
      }
    }
    REQUIRE(bind_to_processors(before));
  }
}

// A trace hook runs there, on the library's stack.
TEST_CASE("own_threads__have_the_stack_size_of_every_other_thread") {
  pthread_attr_t usual;
  REQUIRE(::pthread_getattr_default_np(&usual) == 0);
  std::size_t expected = 0;
  REQUIRE(::pthread_attr_getstacksize(&usual, &expected) == 0);
  REQUIRE(::pthread_attr_destroy(&usual) == 0);
  struct Seen {
    pthread_t caller = ::pthread_self();
    std::atomic<std::size_t> bytes{0};
  } seen;
  EndpointConfig traced;
  traced.trace_context = &seen;
  traced.trace = [](void* context, const TraceRecord&) {
    auto& mine = *static_cast<Seen*>(context);
    if (::pthread_equal(mine.caller, ::pthread_self()) != 0) return;
    pthread_attr_t own;
    std::size_t bytes = 0;
    if (::pthread_getattr_np(::pthread_self(), &own) != 0) return;
    (void)::pthread_attr_getstacksize(&own, &bytes);
    (void)::pthread_attr_destroy(&own);
    mine.bytes = bytes;
  };
  Engine engine({{"udp:127.0.0.1"}, 1, short_close(), ""});
  Engine other({{"udp:127.0.0.11"}, 1, short_close(), ""});
  const auto a = engine.create_endpoint(traced);
  const auto b = other.create_endpoint({});
  PeerId peer{};
  REQUIRE(a->connect(b->address(), peer) == Status::ok);
  CHECK(comes_true([&] { return seen.bytes != 0; }));
  CHECK(seen.bytes == expected);
}

}  // namespace
}  // namespace hawser::engine
