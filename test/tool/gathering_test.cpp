// SPDX-License-Identifier: Apache-2.0
#include "tool/run/gathering.hpp"

#include <catch2/catch.hpp>
#include <set>

#include "tool/run/collectives.hpp"

namespace hawser::tool {
namespace {

TEST_CASE("gathering: what a rank says comes through as it was") {
  Arrival arrival;
  arrival.address = {std::byte{1}, std::byte{2}, std::byte{3}};
  arrival.point = 7;
  arrival.generation = 3;
  const Arrival back = decode(encode(arrival));
  CHECK(back.address == arrival.address);
  CHECK(back.point == 7);
  CHECK(back.generation == 3);
  CHECK(decode(encode({})).point == Arrival::kNowhere);
  CHECK(decode(encode({})).address.empty());
}

TEST_CASE("gathering: less than a rank says is an error") {
  const std::vector<std::byte> blob = encode({});
  for (std::size_t bytes = 0; bytes < blob.size(); ++bytes) {
    CHECK_THROWS_AS(decode(std::span(blob).first(bytes)), Error);
  }
}

TEST_CASE("gathering: communicators of different generations share no channel") {
  std::set<std::uint16_t> seen;
  for (std::uint64_t generation = 0; generation < 100; ++generation) {
    const std::vector<std::uint16_t> channels = Collectives::channels(generation);
    // All generations share the first channel, which is for transfers between stages.
    for (std::size_t i = 1; i < channels.size(); ++i) CHECK(seen.insert(channels[i]).second);
    CHECK(channels[0] < kCollectiveChannel);
  }
}

}  // namespace
}  // namespace hawser::tool
