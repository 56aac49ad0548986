// SPDX-License-Identifier: Apache-2.0
#include "proto/session/session_keys.hpp"

#include <catch2/catch.hpp>
#include <set>

namespace hawser::proto {
namespace {

constexpr Time kNow{1'000'000'000'000};

wire::SessionPart hello() {
  wire::SessionPart part{};
  part.sender_id = 1;
  part.epoch = 2;
  part.counter = 3;
  part.my_token = 4;
  return part;
}

TEST_CASE("session_keys: known answers, from another implementation of BLAKE2b") {
  // k = blake2b(pack("<QQ", 1, 7), digest_size=32)
  // blake2b(pack("<QQQ", 2, 5, 9), digest_size=16, key=k)[:8], and the cookie's in the same way
  const SessionKeys keys(7);
  CHECK(keys.token(5, 9) == 0x1678be65ed4f168a);
  NicAddress address;
  for (std::size_t i = 0; i < address.bytes.size(); ++i) address.bytes[i] = std::byte(i);
  CHECK(keys.cookie(hello(), address, {{5, 6}, {7, 8}}, kNow) == 0xa446a17846aab97e);
}

TEST_CASE("session_keys: no token comes twice, whatever it is for") {
  std::set<std::uint64_t> seen;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const SessionKeys keys(seed);
    const SessionKeys same(seed);
    for (std::uint32_t counter = 0; counter < 30; ++counter) {
      for (std::uint64_t peer = 0; peer < 10; ++peer) {
        const std::uint64_t token = keys.token(counter, peer);
        CHECK(token != 0);
        CHECK(seen.insert(token).second);
        CHECK(same.token(counter, peer) == token);
      }
    }
  }
}

TEST_CASE("session_keys: a cookie is good for what it was made of, and for two periods at most",
          "[S9]") {
  const SessionKeys keys(1);
  NicAddress address;
  address.bytes[0] = std::byte{1};
  wire::SessionPart part = hello();
  CHECK_FALSE(keys.is_cookie_good(part, address, {}, kNow));  // none
  part.cookie = keys.cookie(part, address, {}, kNow);
  CHECK(keys.is_cookie_good(part, address, {}, kNow));
  CHECK(keys.is_cookie_good(part, address, {}, kNow + SessionKeys::kCookiePeriod));
  CHECK_FALSE(keys.is_cookie_good(part, address, {}, kNow + SessionKeys::kCookiePeriod * 2));
  CHECK_FALSE(keys.is_cookie_good(part, address, {}, kNow - SessionKeys::kCookiePeriod));
  CHECK_FALSE(SessionKeys(2).is_cookie_good(part, address, {}, kNow));
  const auto changed = [&](auto&& change) {
    wire::SessionPart other = part;
    change(other);
    CHECK_FALSE(keys.is_cookie_good(other, address, {}, kNow));
  };
  changed([](wire::SessionPart& p) { ++p.sender_id; });
  changed([](wire::SessionPart& p) { ++p.epoch; });
  changed([](wire::SessionPart& p) { ++p.counter; });
  changed([](wire::SessionPart& p) { ++p.my_token; });
  changed([](wire::SessionPart& p) { ++p.cookie; });
  // Another incarnation of the sender has been READY meanwhile, or was answered.
  CHECK_FALSE(keys.is_cookie_good(part, address, {{1, 0}, {}}, kNow));
  CHECK_FALSE(keys.is_cookie_good(part, address, {{0, 1}, {}}, kNow));
  CHECK_FALSE(keys.is_cookie_good(part, address, {{}, {1, 0}}, kNow));
  CHECK_FALSE(keys.is_cookie_good(part, address, {{}, {0, 1}}, kNow));
  address.bytes[39] = std::byte{1};
  CHECK_FALSE(keys.is_cookie_good(part, address, {}, kNow));
}

}  // namespace
}  // namespace hawser::proto
