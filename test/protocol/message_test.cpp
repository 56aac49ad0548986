// SPDX-License-Identifier: Apache-2.0
// Messages between two endpoints over a fabric without faults, and with exact ones.
#include <catch2/catch.hpp>
#include <deque>

#include "test/support/virtual_world.hpp"

namespace hawser::test {
namespace {

using proto::microseconds;
using proto::milliseconds;

TEST_CASE("message__arrives_whole_in_a_posted_receive", "[M1][M28]") {
  for (const std::size_t bytes : {0, 1, 8, 4095, 4096, 4097, 65536, 65537, 1000000, 20000000}) {
    INFO(bytes << " bytes");
    World world({});
    world.connect_all();
    const std::string sent = pattern(bytes, bytes);
    std::string got(bytes, 'x');
    const OperationId r = world.receive(1, world.peer(1, 0), 7, got);
    const OperationId s = world.send(0, 1, 7, sent);
    REQUIRE(world.run_until_completed(0, 1, milliseconds(1000)));
    REQUIRE(world.run_until_completed(1, 1, milliseconds(1000)));
    CHECK(world.completion(0, s)->status == Status::ok);
    REQUIRE(world.completion(1, r)->status == Status::ok);
    CHECK(world.completion(1, r)->bytes == bytes);
    CHECK(got == sent);
    world.run_for(milliseconds(100));
    CHECK(world.stats(0).fragments_retransmitted == 0);
    CHECK(world.stats(0).duplicate_fragments == 0);
    CHECK(world.buffers_in_use(0) == 0);
    CHECK(world.buffers_in_use(1) == 0);
    CHECK(world.stats(0).packets_in_flight == 0);
  }
}

TEST_CASE("message__survives_loss_duplication_reordering_and_damage") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    WorldConfig config;
    config.nics = 4;
    config.seed = seed;
    config.faults = "delay=5us,loss=0.05,duplicate=0.01,reorder=0.05,corrupt=0.001";
    World world(config);
    world.connect_all();
    const std::string sent = pattern(seed, 3000000);
    std::string got(sent.size(), 'x');
    world.receive(1, world.peer(1, 0), 7, got);
    world.send(0, 1, 7, sent);
    REQUIRE(world.run_until_completed(0, 1, milliseconds(5000)));
    REQUIRE(world.run_until_completed(1, 1, milliseconds(5000)));
    CHECK(world.completions(0)[0].status == Status::ok);
    CHECK(world.completions(1)[0].status == Status::ok);
    CHECK(got == sent);
    const EndpointStats stats = world.stats(0);
    UNSCOPED_INFO("time " << world.now().ns << " retransmitted " << stats.fragments_retransmitted
                          << " spurious " << stats.spurious_retransmits << " ptos " << stats.ptos
                          << " evac " << stats.evacuations);
    CHECK(stats.fragments_retransmitted > 0);
  }
}

TEST_CASE("message__survives_the_loss_of_all_acknowledgements_for_three_round_trips") {
  proto::Time from{};
  proto::Time until{};
  World* running = nullptr;
  WorldConfig config;
  config.nics = 2;
  config.hook = [&](std::uint32_t node, std::uint32_t,
                    const engine::FaultPacket& packet) -> std::optional<engine::Fate> {
    const bool deaf = running != nullptr && from <= running->now() && running->now() < until;
    if (!deaf || node != 1 || packet.direction != engine::Direction::tx ||
        packet.queue != proto::Queue::control) {
      return std::nullopt;
    }
    return engine::Fate{.drop = true};
  };
  World world(config);
  running = &world;
  world.connect_all();
  world.apply(0, "delay=5us,rate=500000000");
  const std::string sent = pattern(5, 4 << 20);
  std::string got(sent.size(), 'x');
  world.receive(1, world.peer(1, 0), 7, got);
  world.send(0, 1, 7, sent);
  REQUIRE(
      world.run_until([&] { return world.stats(0).packets_in_flight > 50; }, milliseconds(100)));
  const PeerStats peer = world.peer_stats(0, 1);
  from = world.now();
  until = from + proto::nanoseconds(3 * peer.paths.at(0).srtt_ns);
  REQUIRE(world.run_until_completed(0, 1, milliseconds(1000)));
  REQUIRE(world.run_until_completed(1, 1, milliseconds(1000)));
  CHECK(got == sent);
  CHECK(world.completions(0)[0].status == Status::ok);
  // Nothing was lost on the way there, so hardly anything may have been retransmitted.
  CHECK(world.stats(0).fragments_retransmitted <= 64);
}

// How often node 0, which has two NICs, polled its data queues in the turn in which messages of
// these sizes left, before the last of them left.
std::size_t polls_before(std::initializer_list<std::size_t> messages, bool in_flight) {
  std::size_t polls = 0;
  std::size_t polls_then = 0;
  WorldConfig config;
  config.nics = 2;
  config.before_poll = [&](std::uint32_t node, std::uint32_t) { polls += node == 0 ? 1 : 0; };
  config.hook = [&](std::uint32_t node, std::uint32_t,
                    const engine::FaultPacket& packet) -> std::optional<engine::Fate> {
    if (node == 0 && packet.direction == engine::Direction::tx &&
        packet.queue == proto::Queue::data) {
      polls_then = polls;
    }
    return std::nullopt;
  };
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(50));
  std::deque<std::string> sent;  // addresses must not change
  if (in_flight) {
    world.send(0, 1, 1, sent.emplace_back("before"));
    REQUIRE(world.run_until([&] { return world.stats(0).packets_in_flight > 0; }, milliseconds(1)));
  }
  polls = polls_then = 0;
  for (const std::size_t size : messages) {
    world.send(0, 1, 2, sent.emplace_back(size, 'a'));
  }
  world.run_for(proto::microseconds(1));
  return polls_then;
}

TEST_CASE("message__of_one_packet_leaves_before_its_sender_looks_into_its_nics") {
  CHECK(polls_before({8}, false) == 0);
  CHECK(polls_before({8, 0, 100}, false) == 0);
  // The last microsecond doesn't matter for these messages.
  CHECK(polls_before({10000}, false) >= 2);
  CHECK(polls_before({8}, true) >= 2);
}

}  // namespace
}  // namespace hawser::test
