// SPDX-License-Identifier: Apache-2.0
#include "engine/way_news.hpp"

#include <catch2/catch.hpp>

namespace hawser::engine {
namespace {

using Catch::Contains;

TEST_CASE("news of ways: each says what to do") {
  UdpWayNews news;
  news.to = parse_local_address("10.7.0.2");
  news.bytes = 1472;
  news.whole_bytes = 1372;
  news.kind = UdpWayNews::Kind::fragmented;
  CHECK_THAT(
      words_for("udp:10.7.0.1", news),
      Contains("udp:10.7.0.1: the route to 10.7.0.2 carries datagrams of at most 1372 bytes") &&
          Contains("1472") && Contains("IP fragments") && Contains("`ip route get 10.7.0.2`"));
  news.kind = UdpWayNews::Kind::unsegmented;
  CHECK_THAT(words_for("udp:10.7.0.1", news),
             Contains("refuses to segment sends to 10.7.0.2") && Contains("ethtool"));
  news.kind = UdpWayNews::Kind::resumed;
  news.to = parse_local_address("fd00::2");
  CHECK(words_for("udp:fd00::1", news) ==
        "udp:fd00::1: the kernel segments sends to fd00::2 again");
}

}  // namespace
}  // namespace hawser::engine
