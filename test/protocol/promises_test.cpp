// SPDX-License-Identifier: Apache-2.0
// Promises for whole endpoints in any situation: no heap after construction, the same run from the
// same seed, silence when there is nothing to do.
#include <catch2/catch.hpp>

#include "test/protocol/exchange.hpp"
#include "test/support/seeded.hpp"

namespace hawser::test {
namespace {

using proto::milliseconds;

// Everything that may happen: losses, deaths, a restart, unexpected messages, cancels.
void run_scene(World& world, proto::Random& random) {
  world.connect_all();
  std::vector<std::string> sent;
  std::vector<std::string> received(400, std::string(40000, ' '));
  for (int i = 0; i < 400; ++i) sent.push_back(pattern(static_cast<std::uint64_t>(i), 40000));
  for (std::uint64_t i = 0; i < 200; ++i) {
    proto::SendRequest send;
    const auto from = static_cast<std::uint32_t>(random.below(3));
    const auto to = (from + 1 + static_cast<std::uint32_t>(random.below(2))) % 3;
    send.peer = world.peer(from, to);
    send.tag = i % 4;
    send.data = reinterpret_cast<const std::byte*>(sent[i].data());
    send.bytes = random.below(40000);
    (void)world.post(from, send);
    proto::ReceiveRequest receive;
    receive.peer = random.chance(0.5) ? kAnyPeer : world.peer(to, from);
    receive.tag = i % 4;
    receive.mask = random.chance(0.2) ? 0 : kWholeTag;
    receive.data = reinterpret_cast<std::byte*>(received[i].data());
    receive.bytes = received[i].size();
    const Status status = world.post(to, receive);
    if (status == Status::ok && random.chance(0.1)) (void)world.cancel(to, receive.operation);
    if (i == 60) world.apply(0, 1, "kill");
    if (i == 120) world.apply(0, 1, "revive");
    if (i == 130) world.apply(1, 0, "kill:event");
    if (i == 160) world.apply(1, 0, "revive:event");
    world.run_for(proto::microseconds(random.below(400)));
  }
  world.run_for(milliseconds(200));
}

WorldConfig scene_config(std::uint64_t seed) {
  WorldConfig config;
  config.nodes = 3;
  config.nics = 2;
  config.seed = seed;
  config.faults = "delay=5us/20us,loss=0.03,duplicate=0.02,reorder=0.03,corrupt=0.01";
  config.tunables.unexpected_bytes = 262144;
  return config;
}

TEST_CASE("promise__nothing_is_allocated_after_construction") {
  for_each_seed(3, [](proto::Random& random) {
    World world(scene_config(random.next()));
    run_scene(world, random);
    CHECK(world.turns() > 1000);
    CHECK(world.stats(0).packets_lost > 10);
    CHECK(world.allocations() == 0);
  });
}

TEST_CASE("promise__the_same_seed_gives_the_same_run") {
  for_each_seed(3, [](proto::Random& random) {
    const std::uint64_t seed = random.next();
    proto::Random first_choices(seed);
    World first(scene_config(seed));
    run_scene(first, first_choices);
    proto::Random second_choices(seed);
    World second(scene_config(seed));
    run_scene(second, second_choices);
    CHECK(first.turns() == second.turns());
    CHECK(first.now() == second.now());
    for (std::uint32_t node = 0; node < 3; ++node) {
      for (const CounterRow& row : kCounters) {
        INFO(row.name);
        CHECK(first.stats(node).*row.field == second.stats(node).*row.field);
      }
      CHECK(first.stats(node).drops == second.stats(node).drops);
      REQUIRE(first.completions(node).size() == second.completions(node).size());
      for (std::size_t i = 0; i < first.completions(node).size(); ++i) {
        CHECK(first.completions(node)[i].operation == second.completions(node)[i].operation);
        CHECK(first.completions(node)[i].status == second.completions(node)[i].status);
      }
      REQUIRE(first.events(node).size() == second.events(node).size());
      for (std::size_t i = 0; i < first.events(node).size(); ++i) {
        CHECK(first.events(node)[i].time_ns == second.events(node)[i].time_ns);
      }
    }
  });
}

TEST_CASE("promise__another_seed_gives_another_run") {
  proto::Random choices(1);
  World first(scene_config(1));
  run_scene(first, choices);
  choices = proto::Random(1);
  World second(scene_config(2));
  run_scene(second, choices);
  CHECK(first.turns() != second.turns());
}

TEST_CASE("promise__who_has_nothing_to_do_does_nothing") {
  WorldConfig config;
  config.nodes = 4;
  config.nics = 4;
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  exchange.all_to_all(100000);
  REQUIRE(exchange.run(milliseconds(100)));
  world.run_for(milliseconds(100));
  const std::uint64_t turns = world.turns();
  const std::uint64_t sent = world.stats(0).control_packets_sent + world.stats(0).path_probes_sent;
  world.run_for(milliseconds(3600 * 1000));
  CHECK(world.turns() - turns <= 8);
  CHECK(world.stats(0).control_packets_sent + world.stats(0).path_probes_sent == sent);
}

TEST_CASE("promise__waiting_for_a_message_costs_a_few_packets_a_second") {
  WorldConfig config;
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  (void)exchange.receive(1, 0, 1, 100);
  world.run_for(milliseconds(100));
  const std::uint64_t turns = world.turns();
  world.run_for(milliseconds(100000));
  CHECK(world.turns() - turns < 1000);
  CHECK(world.stats(0).peer_failures + world.stats(1).peer_failures == 0);
  (void)exchange.send(0, 1, 1, 100);
  REQUIRE(exchange.run(milliseconds(10)));
  exchange.check_all_ok();
  exchange.check_quiet();
}

}  // namespace
}  // namespace hawser::test
