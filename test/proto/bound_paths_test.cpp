// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cstddef>
#include <vector>

#include "proto/peer/peer.hpp"

namespace {

using namespace hawser::proto;

void bind(Peer& peer, std::uint32_t slot) {
  peer.paths.bound = static_cast<std::uint16_t>(peer.paths.bound | 1u << slot);
}
void release(Peer& peer, std::uint32_t slot) {
  peer.paths.bound = static_cast<std::uint16_t>(peer.paths.bound & ~(1u << slot));
}

std::vector<std::uint32_t> visited(const Peer& peer) {
  std::vector<std::uint32_t> slots;
  for_each_bound(peer.paths, [&](std::uint32_t slot) { slots.push_back(slot); });
  return slots;
}

}  // namespace

TEST_CASE("for_each_bound: each slot with a path, lowest first", "[peer]") {
  Peer peer;
  CHECK(visited(peer).empty());
  for (const std::uint32_t slot : {15u, 0u, 7u}) bind(peer, slot);
  CHECK(visited(peer) == std::vector<std::uint32_t>{0, 7, 15});
  for (std::uint32_t slot = 0; slot < kMaxPaths; ++slot) bind(peer, slot);
  CHECK(visited(peer).size() == kMaxPaths);
}

TEST_CASE("for_each_bound: a visit may bind and release any", "[peer]") {
  Peer peer;
  for (const std::uint32_t slot : {2u, 3u, 15u}) bind(peer, slot);
  std::vector<std::uint32_t> slots;
  for_each_bound(peer.paths, [&](std::uint32_t slot) {
    slots.push_back(slot);
    release(peer, slot);
    if (slot == 2) release(peer, 3);
    if (slot == 2) bind(peer, 9);
    if (slot == 9) bind(peer, 1);  // a slot behind the present one waits for the next round
  });
  CHECK(slots == std::vector<std::uint32_t>{2, 9, 15});
  CHECK(visited(peer) == std::vector<std::uint32_t>{1});
}

TEST_CASE("Peer: what ordinary packets need lies together", "[peer]") {
  const Peer peer;
  const auto* const begin = reinterpret_cast<const std::byte*>(&peer);
  const auto* const cold = reinterpret_cast<const std::byte*>(&peer.identity.remote_id);
  CHECK(static_cast<std::size_t>(cold - begin) <= 10 * kCacheLine);
  CHECK(reinterpret_cast<const std::byte*>(&peer.touch_link) < cold);
}
