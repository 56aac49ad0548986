// Many send to one: the receiver's ring must not be what loses packets, and its link stays full.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "test/protocol/exchange.hpp"

namespace hawser::test {
namespace {

using proto::Duration;
using proto::milliseconds;

struct Incast {
  Duration time{};
  std::uint64_t early_again = 0;  // fragments sent again in the first 20 ms
  std::uint64_t again = 0;
  std::uint64_t spurious = 0;
};

std::uint64_t again_of(World& world, std::uint32_t senders) {
  std::uint64_t sum = 0;
  for (std::uint32_t i = 1; i <= senders; ++i) sum += world.stats(i).fragments_retransmitted;
  return sum;
}

// `senders` send `bytes` in all to node 0, whose NIC takes 1 GB/s.
Incast run(std::uint32_t senders, std::size_t bytes) {
  WorldConfig config;
  config.nodes = 1 + senders;
  config.faults = "delay=20us,rate=1000000000";
  config.tunables.max_peers = 64;
  World world(config);
  REQUIRE_FALSE(world.nic(0, 0).apply("rx.rate=1000000000").has_value());
  world.connect_all();
  world.run_for(milliseconds(20));
  Exchange exchange(world);
  const std::size_t each = bytes / senders / 4;
  for (std::uint32_t i = 1; i <= senders; ++i) {
    for (std::uint64_t k = 0; k < 4; ++k) {
      (void)exchange.receive(0, i, k, each);
      (void)exchange.send(i, 0, k, each);
    }
  }
  const proto::Time begin = world.now();
  Incast result;
  world.run_for(milliseconds(20));
  result.early_again = again_of(world, senders);
  REQUIRE(exchange.run(milliseconds(10000)));
  result.time = world.now() - begin;
  exchange.check_all_ok();
  result.again = again_of(world, senders);
  for (std::uint32_t i = 1; i <= senders; ++i) {
    result.spurious += world.stats(i).spurious_retransmits;
  }
  CHECK(world.stats(0).host_overruns == 0);
  return result;
}

// What the first windows put too much into the receiver's link is lost there, and then nothing.
TEST_CASE("incast__of_31_fills_the_link_and_loses_nothing_once_it_has_begun") {
  const Incast one = run(1, 64 << 20);
  const Incast many = run(31, 64 << 20);
  const std::string told = "one sender " + std::to_string(one.time.ns / 1000) + " us; 31 senders " +
                           std::to_string(many.time.ns / 1000) + " us, sent again " +
                           std::to_string(many.early_again) + " in the first 20 ms, " +
                           std::to_string(many.again - many.early_again) + " after it";
  INFO(told);
  if (std::getenv("HAWSER_TEST_TABLES") != nullptr) WARN(told);
  CHECK(many.again == many.early_again);
  CHECK(many.spurious == 0);
  CHECK(static_cast<double>(one.time.ns) > 0.85 * static_cast<double>(many.time.ns));
}

}  // namespace
}  // namespace hawser::test
