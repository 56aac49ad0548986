// SPDX-License-Identifier: Apache-2.0
#include "engine/waiting_sends.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <deque>
#include <random>
#include <vector>

namespace hawser::engine {
namespace {

// Compares with one deque per peer. Each peer's sends leave in order. A peer whose first send can't
// go holds back the rest of its own sends and those of no other peer.
TEST_CASE("WaitingSends__agrees_with_a_queue_a_peer") {
  constexpr std::size_t kPeers = 5;
  constexpr std::uint32_t kOperations = 40;
  std::mt19937 random(3);
  WaitingSends waiting(kPeers, kOperations);
  std::array<std::deque<std::uint32_t>, kPeers> model;
  std::vector<std::size_t> peer_of(kOperations);
  std::vector<std::uint32_t> free;
  for (std::uint32_t i = 0; i < kOperations; ++i) free.push_back(i);
  for (int step = 0; step < 20000; ++step) {
    const auto victim = static_cast<std::uint32_t>(random() % kOperations);
    auto& queue = model[peer_of[victim]];
    const auto place = std::ranges::find(queue, victim);
    REQUIRE(waiting.holds(victim) == (place != queue.end()));
    if (random() % 10 == 0 && place != queue.end()) {
      waiting.remove(victim);
      queue.erase(place);
      free.push_back(victim);
    } else if (random() % 3 != 0 && !free.empty()) {
      const std::uint32_t index = free.back();
      free.pop_back();
      const std::size_t peer = random() % kPeers;
      peer_of[index] = peer;
      waiting.push(PeerId{static_cast<std::uint32_t>(peer)}, index);
      model[peer].push_back(index);
    } else {
      const std::size_t stuck = random() % (kPeers + 1);  // this peer's sends can't go
      std::size_t budget = random() % 20;                 // so many sends of others can
      bool any = false;
      const bool taken = waiting.retry([&](std::uint32_t index) {
        const std::size_t peer = peer_of[index];
        REQUIRE(model[peer].front() == index);
        if (peer == stuck || budget == 0) return false;
        --budget;
        model[peer].pop_front();
        free.push_back(index);
        any = true;
        return true;
      });
      REQUIRE(taken == any);
      if (budget > 0) {
        for (std::size_t peer = 0; peer < kPeers; ++peer) {
          REQUIRE((peer == stuck || model[peer].empty()));
        }
      }
    }
    bool empty = true;
    for (std::size_t peer = 0; peer < kPeers; ++peer) {
      REQUIRE(waiting.waits(PeerId{static_cast<std::uint32_t>(peer)}) == !model[peer].empty());
      empty &= model[peer].empty();
    }
    REQUIRE(waiting.empty() == empty);
  }
}

}  // namespace
}  // namespace hawser::engine
