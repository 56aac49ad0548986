// SPDX-License-Identifier: Apache-2.0
#include "engine/send_admission.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

namespace hawser::engine {
namespace {

TEST_CASE("SendAdmission__limits_how_many_are_unfinished") {
  SendAdmission admission(3, 4);
  const PeerId peer{1};
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 4; ++i) REQUIRE(admission.admit(peer));
    CHECK_FALSE(admission.admit(peer));
    // However long the oldest send takes, others come and go.
    for (int i = 0; i < 100; ++i) {
      admission.finish(peer);
      REQUIRE(admission.admit(peer));
      CHECK_FALSE(admission.admit(peer));
    }
    for (int i = 0; i < 4; ++i) admission.finish(peer);
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
    admission.finish(peer);
    ++taken;
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_FALSE(wrong);
}

}  // namespace
}  // namespace hawser::engine
