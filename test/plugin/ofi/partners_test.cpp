// SPDX-License-Identifier: Apache-2.0
// A server whose clients come and go. They are more than an endpoint has places for.
#include <array>
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "test/plugin/ofi/scene.hpp"

using namespace hawser::test;

namespace {

// Exchanges a question and an answer; returns when both ends have their completions.
void exchange(Node& server, Node& client, fi_addr_t to_server, fi_addr_t to_client) {
  std::array<char, 4> question{"abc"}, asked{}, answer{"xyz"}, answered{};
  REQUIRE(fi_trecv(server.ep.get(), asked.data(), 4, nullptr, FI_ADDR_UNSPEC, 1, 0, &asked) == 0);
  REQUIRE(fi_trecv(client.ep.get(), answered.data(), 4, nullptr, to_server, 2, 0, &answered) == 0);
  REQUIRE(fi_tsend(client.ep.get(), question.data(), 4, nullptr, to_server, 1, &question) == 0);
  const Entry heard = server.next(&client);
  REQUIRE(heard.answer == 1);
  CHECK(heard.source == to_client);
  REQUIRE(fi_tsend(server.ep.get(), answer.data(), 4, nullptr, to_client, 2, &answer) == 0);
  REQUIRE(server.next(&client).answer == 1);
  for (int i = 0; i < 2; ++i) REQUIRE(client.next(&server).answer == 1);
  CHECK(std::string(asked.data()) == "abc");
  CHECK(std::string(answered.data()) == "xyz");
}

}  // namespace

TEST_CASE("Partners__whose_addresses_are_removed_make_room_for_others") {
  const bool client_stays = GENERATE(false, true);
  const Variables variables({{"FI_HAWSER_MAX_PEERS", "4"}});
  Node server;
  std::vector<std::unique_ptr<Node>> stay;
  for (int i = 0; i < 8; ++i) {
    INFO("client " << i);
    auto client = std::make_unique<Node>();
    const fi_addr_t to_server = client->insert(server.name());
    fi_addr_t to_client = server.insert(client->name());
    exchange(server, *client, to_server, to_client);
    REQUIRE(fi_av_remove(server.av.get(), &to_client, 1, 0) == 0);
    // A client that closes says goodbye. One that stays is dropped when another needs its place.
    if (client_stays) stay.push_back(std::move(client));
  }
}

TEST_CASE("Partners__with_two_addresses_make_room_when_both_are_removed") {
  const Variables variables({{"FI_HAWSER_MAX_PEERS", "4"}});
  Node server;
  std::vector<std::unique_ptr<Node>> stay;
  for (int i = 0; i < 8; ++i) {
    INFO("client " << i);
    Node& client = *stay.emplace_back(std::make_unique<Node>());
    const fi_addr_t to_server = client.insert(server.name());
    std::array<fi_addr_t, 2> to_client{server.insert(client.name()), server.insert(client.name())};
    exchange(server, client, to_server, to_client[0]);
    std::array<char, 4> asked{};
    REQUIRE(fi_trecv(server.ep.get(), asked.data(), 4, nullptr, to_client[1], 3, 0, &asked) == 0);
    // The message gives the peer's other address its turn.
    REQUIRE(fi_av_remove(server.av.get(), &to_client[0], 1, 0) == 0);
    REQUIRE(fi_tinject(client.ep.get(), "abc", 4, to_server, 3) == 0);
    const Entry entry = server.next(&client);
    REQUIRE(entry.answer == 1);
    CHECK(entry.source == to_client[1]);
    REQUIRE(fi_av_remove(server.av.get(), &to_client[1], 1, 0) == 0);
  }
}

TEST_CASE("Partners__that_have_left_make_room_though_nobody_removed_their_addresses") {
  const Variables variables({{"FI_HAWSER_MAX_PEERS", "4"}});
  Node server;
  fi_addr_t first = FI_ADDR_NOTAVAIL;
  for (int i = 0; i < 8; ++i) {
    INFO("client " << i);
    Node client;
    const fi_addr_t to_server = client.insert(server.name());
    const fi_addr_t to_client = server.insert(client.name());
    if (i == 0) first = to_client;
    exchange(server, client, to_server, to_client);
  }
  // A message for a former client reaches no other client.
  std::array<char, 4> bytes{"abc"};
  REQUIRE(fi_tsend(server.ep.get(), bytes.data(), 4, nullptr, first, 1, &bytes) == 0);
  CHECK(fi_cancel(&server.ep->fid, &bytes) == 0);
}
