// SPDX-License-Identifier: Apache-2.0
#include "proto/message/allowance.hpp"

#include <array>
#include <catch2/catch.hpp>

namespace hawser::proto {
namespace {

constexpr std::uint64_t kRing = 1 << 20;
constexpr std::uint64_t kPacket = 4096;
constexpr Time kBegin{1'000'000'000};

TEST_CASE("Allowance__the_ring_is_shared_among_the_peers_that_sent_lately", "[B7]") {
  Allowance allowance;
  std::array<std::uint32_t, 4> epochs{};
  CHECK(allowance.pass(kBegin));
  CHECK(allowance.share_kib(kRing, kPacket) == 1024);  // nobody has sent
  for (std::uint32_t& epoch : epochs) allowance.count(epoch);
  for (std::uint32_t& epoch : epochs) allowance.count(epoch);  // once an epoch
  CHECK(allowance.share_kib(kRing, kPacket) == 256);
  // In the next epoch only one sends: the others still count.
  CHECK_FALSE(allowance.pass(kBegin + Allowance::kEpoch - Duration{1}));
  CHECK(allowance.pass(kBegin + Allowance::kEpoch));
  allowance.count(epochs[0]);
  CHECK(allowance.share_kib(kRing, kPacket) == 256);
  // In the one after that they don't.
  CHECK(allowance.pass(kBegin + Allowance::kEpoch * 2));
  CHECK(allowance.share_kib(kRing, kPacket) == 1024);
}

TEST_CASE("Allowance__who_sent_before_a_pause_counts_no_more", "[B7]") {
  Allowance allowance;
  std::array<std::uint32_t, 4> epochs{};
  (void)allowance.pass(kBegin);
  for (std::uint32_t& epoch : epochs) allowance.count(epoch);
  CHECK(allowance.pass(kBegin + Allowance::kEpoch * 2));
  CHECK(allowance.share_kib(kRing, kPacket) == 1024);
}

TEST_CASE("Allowance__each_peer_has_two_packets_and_shares_are_rounded_up", "[B7]") {
  Allowance allowance;
  (void)allowance.pass(kBegin);
  CHECK(allowance.share_kib(kPacket, kPacket) == 8);
  CHECK(allowance.share_kib(0, 1000) == 2);
}

}  // namespace
}  // namespace hawser::proto
