// SPDX-License-Identifier: Apache-2.0
// A server with few places in a World, and its clients, which come and go.
#pragma once

#include <malloc.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "test/protocol/exchange.hpp"

namespace hawser::test {

using proto::milliseconds;

inline constexpr std::uint32_t kServer = 0;

inline WorldConfig server_and(std::uint32_t clients, std::uint64_t places) {
  WorldConfig config = tiny_world();
  config.nodes = 1 + clients;
  config.tunables.max_peers = places;
  config.tunables.peer_timeout_ms = 500;
  config.tunables.close_timeout_ms = 50;
  return config;
}

// Serves a client: it sends a question, and the answer goes to the peer that the completion names.
// Returns the server's PeerId for the client, or nothing if the client did not get through.
inline std::optional<PeerId> serve(World& world, std::uint32_t client, std::uint64_t tag,
                                   proto::Duration limit = milliseconds(450)) {
  std::string asked(8, '\0');
  std::string answered(8, '\0');
  const std::string question = "question";
  const std::string answer = "answered";
  const OperationId wildcard = world.receive(kServer, kAnyPeer, tag, asked);
  const OperationId reply = world.receive(client, world.peer(client, kServer), tag, answered);
  const OperationId call = world.send(client, kServer, tag, question);
  const auto done = [&](std::uint32_t node, OperationId operation) {
    const Completion* completion = world.completion(node, operation);
    return completion != nullptr && completion->status == Status::ok;
  };
  if (!world.run_until([&] { return done(kServer, wildcard); }, limit)) {
    (void)world.cancel(kServer, wildcard);
    world.run_for(milliseconds(1));
    return std::nullopt;
  }
  const PeerId peer = world.completion(kServer, wildcard)->peer;
  proto::SendRequest request;
  request.peer = peer;
  request.tag = tag;
  request.data = reinterpret_cast<const std::byte*>(answer.data());
  request.bytes = answer.size();
  REQUIRE(world.post(kServer, request) == Status::ok);
  REQUIRE(world.run_until(
      [&] { return done(kServer, request.operation) && done(client, call) && done(client, reply); },
      limit));
  CHECK(asked == question);
  CHECK(answered == answer);
  return peer;
}

inline void leave(World& world, std::uint32_t client) {
  world.close(client);
  REQUIRE(world.run_until([&] { return world.endpoint(client).closed(); }, milliseconds(500)));
  world.replace(client);
}

// The cost of a number of partners: packets at the server, and turns of all nodes.
struct PartnersCost {
  std::uint64_t packets = 0;
  std::uint64_t turns = 0;
};

inline PartnersCost cost_so_far(World& world) {
  PartnersCost sum{0, world.turns()};
  std::vector<NicStats> nics(world.nics(kServer));
  world.endpoint(kServer).nic_stats(nics);
  for (const NicStats& nic : nics) sum.packets += nic.packets_sent + nic.packets_received;
  return sum;
}

inline PartnersCost operator-(const PartnersCost& after, const PartnersCost& before) {
  return {after.packets - before.packets, after.turns - before.turns};
}

// The last partners cost as much as the first. Retries are drawn at random, so not exactly.
inline void check_same_cost(const PartnersCost& first, const PartnersCost& last) {
  INFO("packets: " << first.packets << ", then " << last.packets);
  INFO("turns: " << first.turns << ", then " << last.turns);
  CHECK(first.packets > 0);
  CHECK(last.packets <= first.packets + first.packets / 8);
  CHECK(last.turns <= first.turns + first.turns / 8);
}

// The bytes of the heap in use. The process may be larger: a world that replaces its nodes leaves
// gaps. Sanitizers have a heap of their own, for which this is 0.
inline std::size_t heap_bytes() {
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

// `partners`: how many were served since then. Sixty-four bytes kept for each are too much.
inline void check_same_memory(std::size_t before_bytes, std::uint64_t partners) {
  const std::size_t now_bytes = heap_bytes();
  INFO("heap: " << before_bytes << " bytes, then " << now_bytes);
  CHECK(now_bytes < before_bytes + 65536 + partners * 64);
}

// Serves `count` clients, one after the other.
inline void serve_in_turn(std::uint32_t count) {
  constexpr std::uint32_t kPlaces = 4;
  const std::uint32_t looked_at = std::min(count / 4, 500u);  // whose cost is compared
  World world(server_and(1, kPlaces));
  std::array<std::int64_t, kPlaces> names;  // the newest of each place
  names.fill(-1);
  PeerId before = kAnyPeer;
  PartnersCost mark;
  PartnersCost first;
  std::size_t settled_bytes = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (i == kPlaces || i == count - looked_at) mark = cost_so_far(world);
    if (i == kPlaces + looked_at) {
      first = cost_so_far(world) - mark;
      settled_bytes = heap_bytes();
    }
    const auto peer = serve(world, 1, i);
    REQUIRE(peer.has_value());
    REQUIRE(peer_place(*peer) < kPlaces);
    // Each name of a place is greater than those before it, until they wrap.
    const std::int64_t name = static_cast<std::uint32_t>(*peer);
    std::int64_t& newest = names[peer_place(*peer)];
    REQUIRE((name > newest || i >= 65535 * kPlaces));
    newest = name;
    leave(world, 1);
    // The PeerId of a peer that has left stays invalid, and no message by it reaches another peer.
    if (before != kAnyPeer && i > kPlaces) {
      proto::SendRequest request;
      request.peer = PeerId{static_cast<std::uint32_t>(*peer) - (1u << 16)};
      CHECK(world.post(kServer, request) == Status::unknown_peer);
      proto::ReceiveRequest receive;
      receive.peer = request.peer;
      CHECK(world.post(kServer, receive) == Status::unknown_peer);
      PeerStats stats;
      CHECK(world.endpoint(kServer).peer_stats(world.now(), request.peer, stats) ==
            Status::unknown_peer);
    }
    before = *peer;
    world.forget_past(kServer);
  }
  check_same_cost(first, cost_so_far(world) - mark);
  check_same_memory(settled_bytes, count - looked_at);
  CHECK(world.stats(kServer).peers_forgotten >= count - kPlaces - 1);
  CHECK(world.buffers_in_use(kServer) < 64);
}

}  // namespace hawser::test
