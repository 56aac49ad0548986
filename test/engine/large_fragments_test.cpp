// SPDX-License-Identifier: Apache-2.0
// Fragments larger than the pieces that make up the unexpected store. Only UDP NICs carry them.
#include <algorithm>

#include "test/engine/endpoint_pair.hpp"

namespace hawser::engine {
namespace {

constexpr std::size_t kMessages = 4;
constexpr std::size_t kPiece = 4096;

}  // namespace

// M13, M14: the store has room for two and a half large fragments. It stores none in part, and
// everything arrives.
TEST_CASE("large_fragments__the_store_holds_them_in_pieces") {
  const std::size_t bytes =
      GENERATE(std::size_t{1}, kPiece, kPiece + 1, 6 * kPiece, 6 * kPiece + 17);
  CAPTURE(bytes);
  Tunables tunables = short_close();
  tunables.fragment_bytes = 30720;
  tunables.unexpected_bytes = 16 * kPiece;
  EndpointPair pair({"udp", 0}, tunables);
  std::vector<std::vector<std::byte>> sent;
  for (std::size_t i = 0; i < kMessages; ++i) {
    sent.push_back(pattern(bytes, i));
    post_send(*pair.a, pair.b_of_a, i, sent.back(), {.level = Level::delivered});
  }
  const std::size_t pieces = (bytes + kPiece - 1) / kPiece;
  const std::size_t held = std::min(kMessages, 16 / pieces);
  REQUIRE(pair.turn_until([&] {
    const EndpointStats stats = pair.b->stats();
    return stats.unexpected_bytes_held == held * bytes &&
           (held == kMessages || stats.no_room_answers > 0);
  }));
  for (std::size_t i = kMessages; i-- > 0;) {
    std::vector<std::byte> buffer(bytes);
    post_receive(*pair.b, pair.a_of_b, i, buffer);
    REQUIRE(pair.next(*pair.b).status == Status::ok);
    REQUIRE(buffer == sent[i]);
  }
  for (std::size_t i = 0; i < kMessages; ++i) REQUIRE(pair.next(*pair.a).status == Status::ok);
  CHECK(pair.b->stats().unexpected_bytes_held == 0);
}

TEST_CASE("large_fragments__ends_with_other_sizes_use_the_smaller") {
  Tunables large = short_close();
  large.fragment_bytes = 61440;
  Tunables small = short_close();
  small.fragment_bytes = 1024;
  Engine engine_a({{"udp:127.0.0.1"}, 0, large, ""});
  Engine engine_b({{"udp:127.0.0.2"}, 0, small, ""});
  const auto a = engine_a.create_endpoint({});
  const auto b = engine_b.create_endpoint({});
  PeerId b_of_a = kAnyPeer;
  PeerId a_of_b = kAnyPeer;
  REQUIRE(a->connect(b->address(), b_of_a) == Status::ok);
  REQUIRE(b->connect(a->address(), a_of_b) == Status::ok);
  const std::vector<std::byte> data = pattern(1'000'000, 1);
  std::vector<std::byte> buffer(data.size());
  post_receive(*b, a_of_b, 1, buffer);
  post_send(*a, b_of_a, 1, data);
  REQUIRE(next_of(*b, *a).status == Status::ok);
  REQUIRE(next_of(*a, *b).status == Status::ok);
  CHECK(buffer == data);
  CHECK(a->stats().data_packets_sent >= data.size() / 1024);
}

}  // namespace hawser::engine
