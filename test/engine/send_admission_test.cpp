#include "engine/send_admission.hpp"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace hawser::engine {
namespace {

// Beside a model that knows the set of unfinished ordinals: a send is admitted exactly while the
// span from the oldest unfinished one, queued ones included, is below the limit.
TEST_CASE("SendAdmission__limits_the_span_not_the_count") {
  const auto limit = GENERATE(std::size_t{4}, std::size_t{63}, std::size_t{64}, std::size_t{65});
  CAPTURE(limit);
  std::mt19937 random(static_cast<unsigned>(limit));
  SendAdmission admission(3, limit);
  const PeerId peer{1};
  std::uint64_t admitted = 0;
  std::uint64_t numbered = 0;
  std::uint64_t floor = 0;
  std::set<std::uint64_t> unfinished;
  for (int step = 0; step < 30000; ++step) {
    switch (random() % 3) {
      case 0: {
        const bool expected = admitted - floor < limit;
        REQUIRE(admission.admit(peer) == expected);
        if (expected) ++admitted;
        break;
      }
      case 1:
        if (numbered < admitted) {
          REQUIRE(admission.number(peer) == numbered);
          unfinished.insert(numbered++);
        }
        break;
      default:
        if (!unfinished.empty()) {
          auto which = unfinished.begin();
          std::advance(which, static_cast<long>(random() % unfinished.size()));
          admission.finish(peer, *which);
          unfinished.erase(which);
          floor = unfinished.empty() ? numbered : *unfinished.begin();
        }
    }
  }
  // Peers don't share a limit.
  CHECK(admission.admit(PeerId{0}));
  CHECK(admission.admit(PeerId{2}));
  CHECK_FALSE(admission.in_range(PeerId{3}));
  CHECK_FALSE(admission.in_range(kAnyPeer));
}

TEST_CASE("SendAdmission__threads_together_never_exceed_the_limit") {
  constexpr std::uint64_t kLimit = 8;
  constexpr int kThreads = 3;
  constexpr std::uint64_t kEach = 2000;
  SendAdmission admission(1, kLimit);
  const PeerId peer{0};
  std::atomic<std::uint64_t> handed{0};  // as through the ring
  std::atomic<bool> wrong{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (std::uint64_t i = 0; i < kEach;) {
        if (!admission.admit(peer)) {
          std::this_thread::yield();
          continue;
        }
        handed.fetch_add(1);
        ++i;
      }
    });
  }
  std::uint64_t taken = 0;
  while (taken < kThreads * kEach) {
    const std::uint64_t there = handed.load();
    if (there - taken > kLimit) wrong = true;
    if (taken == there) {
      std::this_thread::yield();
      continue;
    }
    admission.finish(peer, admission.number(peer));
    ++taken;
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_FALSE(wrong);
}

}  // namespace
}  // namespace hawser::engine
