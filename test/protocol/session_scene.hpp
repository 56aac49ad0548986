// SPDX-License-Identifier: Apache-2.0
// One endpoint and a peer that the test plays, brought to a state of the table in
// docs/internals/protocol.md §6.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "test/protocol/scripted_peer.hpp"

namespace hawser::test {

using proto::milliseconds;
using proto::wire::PacketType;

inline constexpr std::uint64_t kPeerId = 99;
inline const std::string kSecret = "of the job";

enum class State { none, calling, answered, ready, failed };

// An endpoint and its peer, brought to a state.
class Scene {
 public:
  explicit Scene(State state, const std::string& secret = kSecret)
      : world_(config(secret)), peer(world_, 0, kPeerId, secret) {
    switch (state) {
      case State::none: break;
      case State::calling: connect(); break;
      case State::answered: call(); break;
      case State::ready: establish(); break;
      case State::failed:
        establish();
        // A receive waits for the peer, which is silent.
        post_receive();
        world_.run_for(milliseconds(400));
        REQUIRE(stats().failure == Status::peer_timeout);
        break;
    }
    settle();
    (void)peer.heard();
  }

  World& world() { return world_; }
  void settle() { world_.run_for(milliseconds(1)); }
  void connect() {
    const std::vector<std::byte> address = peer.address();
    REQUIRE(world_.endpoint(0).connect(world_.now(), address, id) == Status::ok);
    world_.wake(0);
    settle();
    REQUIRE(peer.heard() == "HELLO");
  }
  void call() {
    peer.say(PacketType::hello);
    settle();
    REQUIRE(peer.heard() == "WELCOME");
  }
  void establish() {
    call();
    peer.echo = true;
    peer.say(PacketType::welcome);
    settle();
    REQUIRE(peer.heard() == "WELCOME");
    REQUIRE(stats().established);
    peer.echo = false;
  }
  void post_receive() {
    proto::ReceiveRequest request;
    request.peer = id;
    request.tag = 5;
    REQUIRE(world_.post(0, request) == Status::ok);
  }
  [[nodiscard]] PeerStats stats() {
    PeerStats stats;
    if (world_.endpoint(0).peer_stats(world_.now(), id, stats) != Status::ok) {
      stats.peer = kAnyPeer;
    }
    return stats;
  }
  [[nodiscard]] std::uint64_t drops(DropReason reason) { return world_.drops(0, reason); }
  // Makes the peer a new incarnation.
  void restart() {
    ++peer.counter;
    peer.token += 2;
  }
  // The same, and the peer proves its address.
  void restart_and_prove() {
    restart();
    peer.say(PacketType::hello);
    settle();
    for (const ScriptedPeer::Seen& packet : peer.seen()) peer.cookie = packet.cookie;
    REQUIRE(peer.cookie != 0);
  }

 private:
  static WorldConfig config(const std::string& secret) {
    WorldConfig config;
    config.nodes = 1;
    config.secrets = {secret};
    config.tunables.peer_timeout_ms = 300;
    return config;
  }
  World world_;

 public:
  ScriptedPeer peer;
  PeerId id{0};  // the first one that the endpoint gives
};

}  // namespace hawser::test
