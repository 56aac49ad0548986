// SPDX-License-Identifier: Apache-2.0
// NICs of unequal rates: together they must carry the sum of their rates.
#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>

#include "test/protocol/exchange.hpp"

namespace hawser::test {
namespace {

using proto::milliseconds;

constexpr std::uint32_t kRanks = 4;
constexpr std::array<std::uint64_t, 4> kRates{1'000'000'000, 1'000'000'000, 500'000'000,
                                              100'000'000};
constexpr std::uint64_t kSum = 2'600'000'000;  // bytes per second and rank

// Each rank sends to the next one, as in a ring all-reduce, over four NICs: two sound ones, one at
// half and one at a tenth of their rate. Returns the received bytes as a share of what all NICs can
// carry, without headers.
double share_of_the_sum(bool weighted) {
  constexpr std::size_t kBytes = 1 << 20;
  constexpr std::uint64_t kWindow = 16;  // messages under way from each rank
  WorldConfig config;
  config.nodes = kRanks;
  config.nics = kRates.size();
  config.tunables.spray_weighted = weighted ? 1 : 0;
  World world(config);
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    for (std::uint32_t nic = 0; nic < kRates.size(); ++nic) {
      const std::string rate = "rate=" + std::to_string(kRates[nic]);
      world.apply(rank, nic, rate);
    }
  }
  world.connect_all();
  const std::string sent = pattern(1, kBytes);
  std::vector<std::string> buffers(kRanks * kWindow, std::string(kBytes, '\0'));
  std::array<std::uint64_t, kRanks> posted{};
  const auto received = [&] {
    std::uint64_t sum = 0;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) sum += world.stats(rank).messages_received;
    return sum;
  };
  const auto keep_going = [&] {
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      const std::uint32_t next = (rank + 1) % kRanks;
      while (posted[rank] < world.stats(next).messages_received + kWindow) {
        const std::uint64_t tag = posted[rank]++;
        (void)world.receive(next, world.peer(next, rank), tag,
                            buffers[next * kWindow + tag % kWindow]);
        (void)world.send(rank, next, tag, sent);
      }
    }
    return false;
  };
  (void)world.run_until(keep_going, milliseconds(50));  // until the windows have settled
  const std::uint64_t before = received();
  const proto::Duration measured = milliseconds(100);
  (void)world.run_until(keep_going, measured);
  const double rate =
      static_cast<double>((received() - before) * kBytes) * 1e9 / static_cast<double>(measured.ns);
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) CHECK(world.stats(rank).evacuations == 0);
  return rate / static_cast<double>(kRanks * kSum);
}

TEST_CASE("unequal__nics_together_carry_what_each_of_them_can", "[long]") {
  const double weighted = share_of_the_sum(true);
  const double equally = share_of_the_sum(false);
  const std::string told = "of the sum of the rates: weighted " + std::to_string(weighted) +
                           ", equally " + std::to_string(equally);
  INFO(told);
  if (std::getenv("HAWSER_TEST_TABLES") != nullptr) WARN(told);
  CHECK(weighted > 0.9);
  CHECK(weighted > equally);
}

}  // namespace
}  // namespace hawser::test
