// SPDX-License-Identifier: Apache-2.0
// An endpoint with few places serves many partners, one after the other.
#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <thread>
#include <vector>

#include "hawser/engine.hpp"
#include "test/engine/endpoint_pair.hpp"

namespace hawser::engine {
namespace {

constexpr std::uint64_t kPlaces = 8;

Tunables few_places() {
  Tunables tunables = short_close();
  tunables.max_peers = kPlaces;
  return tunables;
}

// The client asks a question and the server answers. Returns the client's name at the server.
PeerId serve(Endpoint& server, Endpoint& client) {
  PeerId to = kAnyPeer;
  REQUIRE(client.connect(server.address(), to) == Status::ok);
  const std::vector<std::byte> question = pattern(100, 1);
  const std::vector<std::byte> answer = pattern(3000, 2);
  std::vector<std::byte> asked(question.size());
  std::vector<std::byte> answered(answer.size());
  post_receive(server, kAnyPeer, 1, asked);
  post_receive(client, to, 2, answered);
  post_send(client, to, 1, question);
  const Completion heard = next_of(server, client);
  REQUIRE(heard.status == Status::ok);
  post_send(server, heard.peer, 2, answer);
  REQUIRE(next_of(server, client).status == Status::ok);
  for (int i = 0; i < 2; ++i) REQUIRE(next_of(client, server).status == Status::ok);
  CHECK(asked == question);
  CHECK(answered == answer);
  return heard.peer;
}

TEST_CASE("Partners__more_than_there_are_places_come_and_go") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  const bool server_disconnects = GENERATE(false, true);
  Engine at_server({nic_names(setting, 0, 2), setting.threads, few_places(), ""});
  Engine at_clients({nic_names(setting, 1, 2), setting.threads, few_places(), ""});
  const auto server = at_server.create_endpoint({});
  std::vector<PeerId> names(kPlaces, kAnyPeer);
  for (int i = 0; i < 40; ++i) {
    auto client = at_clients.create_endpoint({});
    const PeerId peer = serve(*server, *client);
    REQUIRE(peer_place(peer) < kPlaces);
    PeerId& before = names[peer_place(peer)];
    CHECK(before != peer);
    if (before != kAnyPeer) {
      const std::vector<std::byte> bytes = pattern(8, 3);
      OperationId operation = kNoOperation;
      CHECK(server->send({.peer = before, .tag = 1, .data = bytes.data(), .bytes = bytes.size()},
                         operation) == Status::unknown_peer);
      PeerStats stats;
      CHECK(server->peer_stats(before, stats) == Status::unknown_peer);
      CHECK(server->disconnect(before) == Status::unknown_peer);
    }
    before = peer;
    if (server_disconnects) REQUIRE(server->disconnect(peer) == Status::ok);
    // The server must take turns to hear the client's goodbye.
    std::atomic<bool> done = false;
    std::thread closer([&] {
      client.reset();
      done = true;
    });
    while (!done) server->poll({});
    closer.join();
  }
  CHECK(server->stats().peers_forgotten >= 40 - kPlaces - 1);
  CHECK(server->stats().calls_refused == 0);
}

TEST_CASE("Partners__that_find_no_place_are_told_and_so_is_who_has_none") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  Tunables tunables = few_places();
  tunables.max_peers = 1;
  tunables.longest_absence_ms = 0;
  tunables.peer_timeout_ms = 1000;
  Engine at_server({nic_names(setting, 0, 1), setting.threads, tunables, ""});
  Engine at_clients({nic_names(setting, 1, 1), setting.threads, tunables, ""});
  const auto server = at_server.create_endpoint({});
  const auto first = at_clients.create_endpoint({});
  const auto second = at_clients.create_endpoint({});
  (void)serve(*server, *first);
  PeerId to = kAnyPeer;
  REQUIRE(second->connect(server->address(), to) == Status::ok);
  std::vector<std::byte> bytes(8);
  post_receive(*second, to, 1, bytes);
  Completion completion;
  for (const HangLimit limit; !limit.is_over();) {
    if (second->wait(std::span(&completion, 1), 1'000'000) == 1) break;
    server->poll({});
    first->poll({});
  }
  CHECK(completion.status == Status::peer_full);
  CHECK(server->stats().calls_refused > 0);
  std::array<Event, 16> events;
  bool told = false;
  for (std::size_t n = events.size(); n == events.size();) {
    n = server->poll_events(events);
    for (std::size_t i = 0; i < n; ++i) told |= events[i].kind == Event::Kind::peer_refused;
  }
  CHECK(told);
}

// Two processes have the same name and epoch. The second one is told why its call fails, and the
// first one is not disturbed.
TEST_CASE("Partners__of_a_name_that_is_taken_are_told_so") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  Tunables tunables = short_close();
  tunables.longest_absence_ms = 0;
  tunables.peer_timeout_ms = 500;
  Engine at_server({nic_names(setting, 0, 1), setting.threads, short_close(), ""});
  Engine at_clients({nic_names(setting, 1, 1), setting.threads, tunables, ""});
  EndpointConfig config;
  config.endpoint_id = 7;
  config.epoch = 3;
  const auto server = at_server.create_endpoint({});
  const auto first = at_clients.create_endpoint(config);
  const auto second = at_clients.create_endpoint(config);
  (void)serve(*server, *first);
  PeerId to = kAnyPeer;
  REQUIRE(second->connect(server->address(), to) == Status::ok);
  std::vector<std::byte> bytes(8);
  post_receive(*second, to, 1, bytes);
  CHECK(next_of(*second, *server).status == Status::peer_unreachable);
  PeerStats stats;
  REQUIRE(second->peer_stats(to, stats) == Status::ok);
  CHECK(stats.failure_reason == Reason::stale_epoch);
  std::array<Event, 16> events;
  const std::size_t told = second->poll_events(events);
  const auto failed =
      std::ranges::find(std::span(events).first(told), Event::Kind::peer_failed, &Event::kind);
  REQUIRE(failed != std::span(events).first(told).end());
  CHECK(failed->reason == Reason::stale_epoch);
  (void)serve(*server, *first);
}

}  // namespace
}  // namespace hawser::engine
