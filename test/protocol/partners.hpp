// SPDX-License-Identifier: Apache-2.0
// A server with few places in a World, and its clients, which come and go.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

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

// Serves `count` clients, one after the other.
inline void serve_in_turn(std::uint32_t count) {
  constexpr std::uint64_t kPlaces = 4;
  World world(server_and(1, kPlaces));
  std::set<PeerId> names;
  PeerId before = kAnyPeer;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto peer = serve(world, 1, i);
    REQUIRE(peer.has_value());
    REQUIRE(peer_place(*peer) < kPlaces);
    REQUIRE((names.insert(*peer).second || i >= 65535 * kPlaces));
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
  }
  CHECK(world.stats(kServer).peers_forgotten >= count - kPlaces - 1);
  CHECK(world.buffers_in_use(kServer) < 64);
}

}  // namespace hawser::test
