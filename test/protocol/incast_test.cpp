// SPDX-License-Identifier: Apache-2.0
// Many nodes send to one. Neither the receiver's ring nor its link's queue may lose packets, and
// its link stays full.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "test/protocol/exchange.hpp"

namespace hawser::test {
namespace {

using proto::Duration;
using proto::microseconds;
using proto::milliseconds;

struct Incast {
  Duration time{};
  std::uint64_t early_losses = 0;  // in the link's queue, at the beginning
  std::uint64_t losses = 0;        // after that
  std::uint64_t packets = 0;
  std::uint64_t early_again = 0;
  std::uint64_t again = 0;
  std::uint64_t spurious = 0;
};

std::uint64_t again_of(World& world, std::uint32_t senders) {
  std::uint64_t sum = 0;
  for (std::uint32_t i = 1; i <= senders; ++i) sum += world.stats(i).fragments_retransmitted;
  return sum;
}

// `senders` send `count` messages of `bytes` each to node 0, whose NIC takes 1 GB/s; its link's
// queue holds 1 MiB.
Incast run(std::uint32_t senders, std::uint64_t count, std::size_t bytes, Duration beginning) {
  WorldConfig config;
  config.nodes = 1 + senders;
  config.faults = "delay=20us,rate=1000000000";
  config.tunables.max_peers = 64;
  World world(config);
  world.apply(0, 0, "rx.rate=1000000000");
  world.connect_all();
  world.run_for(milliseconds(20));
  Exchange exchange(world);
  for (std::uint32_t i = 1; i <= senders; ++i) {
    for (std::uint64_t k = 0; k < count; ++k) exchange.message(i, 0, k, bytes);
  }
  const auto losses = [&] { return world.nic(0, 0).counts(engine::Direction::rx).dropped; };
  const proto::Time begin = world.now();
  Incast result;
  world.run_for(beginning);
  result.early_losses = losses();
  result.early_again = again_of(world, senders);
  REQUIRE(exchange.run(milliseconds(10000)));
  result.time = world.now() - begin;
  exchange.check_all_ok();
  result.losses = losses() - result.early_losses;
  result.again = again_of(world, senders) - result.early_again;
  for (std::uint32_t i = 1; i <= senders; ++i) {
    result.spurious += world.stats(i).spurious_retransmits;
    result.packets += world.stats(i).data_packets_sent;
  }
  CHECK(world.stats(0).host_overruns == 0);
  return result;
}

std::string tell(const char* what, const Incast& of) {
  return std::string(what) + " " + std::to_string(of.time.ns / 1000) + " us, " +
         std::to_string(of.packets) + " packets, lost in the queue " +
         std::to_string(of.early_losses) + " at first, " + std::to_string(of.losses) +
         " after, sent again " + std::to_string(of.early_again) + " + " + std::to_string(of.again) +
         ", spurious " + std::to_string(of.spurious) + "; ";
}

// The unscheduled bytes, 31 times 64 KiB, are twice what the queue holds, so some of them are lost.
// After that nothing is lost.
TEST_CASE("incast__of_31_fills_the_link_and_loses_nothing_once_it_has_begun", "[long][G1]") {
  const Duration unasked = microseconds(2200);  // 2 MB at 1 GB/s
  const Incast one = run(1, 31, 4 << 20, unasked);
  const Incast many = run(31, 1, 4 << 20, unasked);
  const std::string told = tell("one sender", one) + tell("31 senders", many);
  INFO(told);
  if (std::getenv("HAWSER_TEST_TABLES") != nullptr) WARN(told);
  CHECK(one.losses + one.early_losses == 0);
  CHECK(many.losses == 0);
  CHECK(many.spurious * 100 < many.packets);
  CHECK(static_cast<double>(one.time.ns) > 0.85 * static_cast<double>(many.time.ns));
}

// Four messages each, with 8 MB of unscheduled bytes. The windows hold these back.
TEST_CASE("incast__of_31_with_much_that_comes_unasked_settles_too", "[long][G1]") {
  const Incast one = run(1, 124, 541000, milliseconds(20));
  const Incast many = run(31, 4, 541000, milliseconds(20));
  const std::string told = tell("one sender", one) + tell("31 senders", many);
  INFO(told);
  if (std::getenv("HAWSER_TEST_TABLES") != nullptr) WARN(told);
  CHECK(many.losses == 0);
  CHECK(many.again <= 20);
  CHECK(static_cast<double>(one.time.ns) > 0.85 * static_cast<double>(many.time.ns));
}

}  // namespace
}  // namespace hawser::test
