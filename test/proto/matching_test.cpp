// SPDX-License-Identifier: Apache-2.0
#include "proto/message/matching.hpp"

#include <catch2/catch.hpp>

namespace {

using hawser::kAnyPeer;
using hawser::OperationId;
using hawser::PeerId;
using hawser::proto::Matching;
using hawser::proto::PostedReceive;
using hawser::proto::UnexpectedEntry;

constexpr std::uint64_t kExact = ~std::uint64_t{0};

PostedReceive receive_of(std::uint64_t operation, PeerId peer, std::uint64_t tag,
                         std::uint64_t mask = kExact) {
  PostedReceive receive;
  receive.operation = static_cast<OperationId>(operation);
  receive.peer = peer;
  receive.tag = tag;
  receive.mask = mask;
  return receive;
}

UnexpectedEntry message_of(PeerId peer, std::uint64_t number, std::uint32_t rx_message,
                           std::uint64_t tag) {
  UnexpectedEntry message;
  message.peer = peer;
  message.number = number;
  message.rx_message = rx_message;
  message.tag = tag;
  return message;
}

}  // namespace

TEST_CASE("matching: the earliest posted wins, exact or not") {
  Matching matching(8, 8, 2);
  const PeerId peer{1};
  CHECK_FALSE(matching.post(receive_of(0, kAnyPeer, 0, 0)));
  CHECK_FALSE(matching.post(receive_of(1, peer, 5)));
  CHECK_FALSE(matching.post(receive_of(2, peer, 5, 0xf)));
  CHECK_FALSE(matching.post(receive_of(3, kAnyPeer, 5)));
  for (std::uint64_t i = 0; i < 4; ++i) {
    const auto receive = matching.arrive(message_of(peer, i, 0, 5));
    REQUIRE(receive);
    CHECK(receive->operation == static_cast<OperationId>(i));
  }
  CHECK_FALSE(matching.arrive(message_of(peer, 4, 0, 5)));
}

TEST_CASE("matching: messages that came before a kind of receive was first posted are found") {
  Matching matching(8, 8, 2);
  CHECK_FALSE(matching.arrive(message_of(PeerId{0}, 0, 3, 5)));
  CHECK_FALSE(matching.arrive(message_of(PeerId{1}, 0, 4, 5)));
  CHECK(matching.probe(PeerId{1}, 0, 5, kExact)->rx_message == 4);
  CHECK(matching.post(receive_of(0, kAnyPeer, 5))->rx_message == 3);
  CHECK(matching.post(receive_of(0, PeerId{1}, 0x15, 0xf))->rx_message == 4);
}

TEST_CASE("matching: a channel is a world of its own") {
  Matching matching(8, 8, 1);
  PostedReceive receive = receive_of(0, kAnyPeer, 0, 0);
  receive.channel = 1;
  CHECK_FALSE(matching.post(receive));
  CHECK_FALSE(matching.arrive(message_of(PeerId{0}, 0, 0, 0)));
  CHECK(matching.probe(kAnyPeer, 1, 0, 0) == nullptr);
  CHECK(matching.probe(kAnyPeer, 0, 0, 0) != nullptr);
}

TEST_CASE("matching: a receive posted again from within drop_peer stays") {
  Matching matching(8, 8, 2);
  CHECK_FALSE(matching.post(receive_of(1, PeerId{0}, 5)));
  int calls = 0;
  matching.drop_peer(
      PeerId{0},
      [&](const PostedReceive& dropped) {
        ++calls;
        PostedReceive again = dropped;
        again.peer = PeerId{1};
        CHECK_FALSE(matching.post(again));
      },
      [](const UnexpectedEntry&) { FAIL("none is held"); });
  CHECK(calls == 1);
  CHECK(matching.posted() == 1);
  CHECK(matching.arrive(message_of(PeerId{1}, 0, 0, 5)));
}
