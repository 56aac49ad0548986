// SPDX-License-Identifier: Apache-2.0
// Sends from several pieces and receives into several, through the public API.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <vector>

#include "test/engine/endpoint_pair.hpp"

namespace hawser::engine {
namespace {

std::vector<SendPiece> cut(std::span<const std::byte> bytes, std::size_t count) {
  std::vector<SendPiece> pieces;
  for (const std::size_t size = bytes.size() / (count + 1); pieces.size() + 1 < count;) {
    pieces.push_back({bytes.data(), size});
    bytes = bytes.subspan(size);
  }
  pieces.push_back({bytes.data(), bytes.size()});
  return pieces;
}

std::vector<ReceivePiece> cut_room(std::span<std::byte> room, std::size_t count) {
  std::vector<ReceivePiece> pieces;
  for (const SendPiece& piece : cut(room, count))
    pieces.push_back({const_cast<void*>(piece.data), piece.bytes});
  return pieces;
}

}  // namespace

// The lists are the caller's again when the call returns.
TEST_CASE("Endpoint__messages_of_pieces_arrive_in_pieces") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  EndpointPair pair(setting);
  std::uint64_t tag = 0;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{8}, std::size_t{700},
                                  std::size_t{5000}, std::size_t{300'000}}) {
    for (std::size_t count = 1; count <= kMostPieces; ++count) {
      CAPTURE(bytes, count);
      ++tag;
      const std::vector<std::byte> sent = pattern(bytes, tag);
      std::vector<std::byte> received(bytes);
      OperationId send = kNoOperation;
      OperationId receive = kNoOperation;
      {
        const auto room = cut_room(received, kMostPieces + 1 - count);
        REQUIRE(pair.b->receive({.peer = pair.a_of_b, .tag = tag, .pieces = room}, receive) ==
                Status::ok);
        const auto from = cut(sent, count);
        REQUIRE(pair.a->send({.peer = pair.b_of_a, .tag = tag, .pieces = from}, send) ==
                Status::ok);
      }
      const Completion at_b = pair.next(*pair.b);
      CHECK(at_b.status == Status::ok);
      CHECK(at_b.bytes == bytes);
      CHECK(at_b.message_bytes == bytes);
      CHECK(received == sent);
      const Completion at_a = pair.next(*pair.a);
      CHECK(at_a.operation == send);
      CHECK(at_a.status == Status::ok);
      CHECK(at_a.message_bytes == bytes);
    }
  }
}

TEST_CASE("Endpoint__pieces_can_be_injected_and_claimed") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  EndpointPair pair(setting);
  std::vector<std::byte> data = pattern(200, 1);
  const std::vector<std::byte> sent = data;
  const auto from = cut(data, 5);
  REQUIRE(pair.a->inject({.peer = pair.b_of_a, .tag = 9, .pieces = from}) == Status::ok);
  std::ranges::fill(data, std::byte{0xee});
  Envelope envelope;
  MessageId message = kNoMessage;
  REQUIRE(pair.turn_until([&] {
    return pair.b->claim({.peer = pair.a_of_b, .tag = 9}, envelope, message) == Status::ok;
  }));
  CHECK(envelope.bytes == 200);
  std::vector<std::byte> received(200);
  const auto room = cut_room(received, 3);
  OperationId receive = kNoOperation;
  REQUIRE(pair.b->receive_claimed(message, {.pieces = room}, receive) == Status::ok);
  CHECK(pair.next(*pair.b).status == Status::ok);
  CHECK(received == sent);
}

}  // namespace hawser::engine
