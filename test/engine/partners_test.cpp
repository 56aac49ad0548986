// SPDX-License-Identifier: Apache-2.0
// An endpoint with few places serves many partners, one after the other.
#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "hawser/engine.hpp"
#include "test/engine/captured_log.hpp"
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

// The PeerId of a partner that has left names nobody.
void check_unknown(Endpoint& server, PeerId peer) {
  const std::vector<std::byte> bytes = pattern(8, 3);
  OperationId operation = kNoOperation;
  CHECK(server.send({.peer = peer, .tag = 1, .data = bytes.data(), .bytes = bytes.size()},
                    operation) == Status::unknown_peer);
  PeerStats stats;
  CHECK(server.peer_stats(peer, stats) == Status::unknown_peer);
  CHECK(server.disconnect(peer) == Status::unknown_peer);
}

// Clients come to a server of these tunables, one after the other.
void come_and_go(const Setting& setting, const Tunables& tunables, std::uint64_t clients,
                 bool server_disconnects) {
  Engine at_server({nic_names(setting, 0, 2), setting.threads, tunables, ""});
  Engine at_clients({nic_names(setting, 1, 2), setting.threads, few_places(), ""});
  const auto server = at_server.create_endpoint({});
  std::vector<PeerId> names(tunables.max_peers, kAnyPeer);
  for (std::uint64_t i = 0; i < clients; ++i) {
    auto client = at_clients.create_endpoint({});
    const PeerId peer = serve(*server, *client);
    REQUIRE(peer_place(peer) < tunables.max_peers);
    PeerId& before = names[peer_place(peer)];
    CHECK(before != peer);
    if (before != kAnyPeer) check_unknown(*server, before);
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
  CHECK(server->stats().peers_forgotten >= clients - tunables.max_peers - 1);
  CHECK(server->stats().calls_refused == 0);
}

TEST_CASE("Partners__more_than_there_are_places_come_and_go") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  const bool server_disconnects = GENERATE(false, true);
  come_and_go(setting, few_places(), 40, server_disconnects);
}

TEST_CASE("Partners__more_than_the_places_of_a_default_come_and_go") {
  const Setting setting = GENERATE(Setting{"memory", 0}, Setting{"udp", 1});
  CAPTURE(setting);
  REQUIRE(short_close().max_peers == 256);
  come_and_go(setting, short_close(), 300, false);
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

// The log names the endpoint that found no place, the limit and what can be done, as often as the
// events do: once a second at most, however many calls are refused.
TEST_CASE("Partners__that_find_no_place_are_written_into_the_log") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  const CapturedLog log;
  const auto begin = std::chrono::steady_clock::now();
  std::uint64_t refused = 0;
  std::size_t events_told = 0;
  {
    Tunables tunables = few_places();
    tunables.max_peers = 1;
    Engine at_server({nic_names(setting, 0, 1), setting.threads, tunables, ""});
    Engine at_clients({nic_names(setting, 1, 1), setting.threads, few_places(), ""});
    const auto server = at_server.create_endpoint({});
    const auto first = at_clients.create_endpoint({});
    EndpointConfig config;
    config.endpoint_id = 0xbad1;
    const auto second = at_clients.create_endpoint(config);
    (void)serve(*server, *first);
    PeerId to = kAnyPeer;
    REQUIRE(second->connect(server->address(), to) == Status::ok);
    const std::vector<std::byte> bytes(8);
    post_send(*second, to, 1, bytes);
    REQUIRE(turn_until(*server, *second, [&] {
      std::array<Event, 16> events;
      const auto some = std::span(events).first(server->poll_events(events));
      events_told += static_cast<std::size_t>(
          std::ranges::count(some, Event::Kind::peer_refused, &Event::kind));
      refused = server->stats().calls_refused;
      return refused >= 5 && events_told > 0;
    }));
  }
  const auto seconds =
      std::chrono::ceil<std::chrono::seconds>(std::chrono::steady_clock::now() - begin).count();
  const std::vector<std::string> lines = log.lines();
  CAPTURE(lines, seconds);
  CHECK(lines.size() >= events_told);
  CHECK(lines.size() <= static_cast<std::size_t>(seconds));
  for (const std::string& line : lines) {
    CHECK(
        line ==
        "A call of endpoint 0xbad1 was refused: all places (max_peers = 1) are in use here. Raise "
        "max_peers, disconnect peers that are no longer needed, or receive the messages of peers "
        "that have left");
  }
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
