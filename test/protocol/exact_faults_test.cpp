// SPDX-License-Identifier: Apache-2.0
// One exact fault at a time. Short exchanges run again and again, and each time another packet is
// lost, duplicated, late or damaged. No packet may be indispensable.
#include <catch2/catch.hpp>
#include <set>

#include "test/protocol/exchange.hpp"
#include "test/protocol/packets.hpp"

namespace hawser::test {
namespace {

using engine::Fate;
using engine::FaultPacket;
using proto::microseconds;
using proto::milliseconds;
using Packets = std::set<std::size_t>;

// Counts the packets that leave any NIC, and applies the fault to some of them.
class Script {
 public:
  Script(Packets hit, Fate fate) : hit_(std::move(hit)), fate_(fate) {}
  std::optional<Fate> operator()(std::uint32_t, std::uint32_t, const FaultPacket& packet) {
    if (packet.direction != engine::Direction::tx) return {};
    if (hit_.contains(count_++)) return fate_;
    return {};
  }
  [[nodiscard]] std::size_t count() const { return count_; }

 private:
  Packets hit_;
  Fate fate_;
  std::size_t count_ = 0;
};

// A handshake and messages of every kind, in both directions.
void talk(Exchange& exchange) {
  (void)exchange.receive(1, 0, 1, 100000);
  (void)exchange.receive(1, kAnyNode, 2, 10);
  (void)exchange.receive(0, 1, 3, 300);
  (void)exchange.send(0, 1, 1, 100000);
  (void)exchange.send(0, 1, 2, 10, {.level = Level::delivered});
  (void)exchange.send(1, 0, 3, 300);
  (void)exchange.send(1, 0, 4, 0);
  (void)exchange.send(0, 1, 5, 70000);
}
void talk_later(Exchange& exchange) {
  (void)exchange.receive(0, 1, 4, 0);
  (void)exchange.receive(1, 0, 5, 70000);
}

struct Outcome {
  std::size_t packets = 0;
  proto::Duration time{};
};

Outcome run_talk(std::uint32_t nics, Packets hit, Fate fate, proto::Duration limit) {
  Script script(std::move(hit), fate);
  WorldConfig config = tiny_world();
  config.nics = nics;
  config.hook = std::ref(script);
  World world(config);
  Exchange exchange(world);
  const proto::Time start = world.now();
  talk(exchange);
  world.run_for(milliseconds(1));
  talk_later(exchange);
  REQUIRE(exchange.run(limit));
  const Outcome outcome{script.count(), world.now() - start};
  exchange.check_all_ok();
  exchange.check_quiet(milliseconds(200));
  return outcome;
}

TEST_CASE("exact__any_one_packet_of_an_exchange_may_be_lost") {
  for (const std::uint32_t nics : {1, 2}) {
    const Outcome whole = run_talk(nics, {}, {}, milliseconds(50));
    INFO(whole.packets << " packets in " << whole.time.ns / 1000 << " us");
    REQUIRE(whole.packets > 50);
    for (std::size_t i = 0; i < whole.packets + 10; ++i) {
      INFO(nics << " NICs, packet " << i << " lost");
      (void)run_talk(nics, {i}, {.drop = true}, milliseconds(60));
    }
  }
}

TEST_CASE("exact__any_one_packet_of_an_exchange_may_come_twice", "[A1][I1]") {
  const Outcome whole = run_talk(2, {}, {}, milliseconds(50));
  for (std::size_t i = 0; i < whole.packets; ++i) {
    INFO("packet " << i << " doubled");
    const Outcome outcome = run_talk(2, {i}, {.duplicate = true}, milliseconds(50));
    CHECK((outcome.time - whole.time).ns < microseconds(100).ns);
  }
}

TEST_CASE("exact__any_one_packet_of_an_exchange_may_come_50_ms_late", "[M19]") {
  const Outcome whole = run_talk(2, {}, {}, milliseconds(50));
  for (std::size_t i = 0; i < whole.packets + 10; ++i) {
    INFO("packet " << i << " late");
    (void)run_talk(2, {i}, {.delay = milliseconds(50)}, milliseconds(80));
  }
}

TEST_CASE("exact__any_one_packet_of_an_exchange_may_be_damaged") {
  const Outcome whole = run_talk(1, {}, {}, milliseconds(50));
  for (std::size_t i = 0; i < whole.packets; ++i) {
    INFO("packet " << i << " damaged");
    (void)run_talk(1, {i}, {.corrupt = true}, milliseconds(60));
    (void)run_talk(1, {i}, {.truncate = true}, milliseconds(60));
  }
}

TEST_CASE("exact__any_two_packets_of_a_tiny_exchange_may_be_lost") {
  const auto run = [](Packets hit) {
    Script script(std::move(hit), {.drop = true});
    WorldConfig config = tiny_world();
    config.hook = std::ref(script);
    World world(config);
    Exchange exchange(world);
    exchange.message(0, 1, 1, 10, {.level = Level::delivered});
    REQUIRE(exchange.run(milliseconds(300)));
    exchange.check_all_ok();
    exchange.check_quiet(milliseconds(300));
    return script.count();
  };
  const std::size_t whole = run({});
  INFO(whole << " packets");
  for (std::size_t i = 0; i < whole + 6; ++i) {
    for (std::size_t j = i + 1; j < whole + 7; ++j) {
      INFO("packets " << i << " and " << j << " lost");
      (void)run({i, j});
    }
  }
}

bool is_fragment(const FaultPacket& packet, std::uint32_t number) {
  const auto view = view_of(packet);
  return packet.queue == proto::Queue::data && view.fragment != nullptr &&
         view.fragment->fragment == number;
}

TEST_CASE("exact__fragment_7_is_lost_once", "[L1]") {
  Loss loss{[](std::uint32_t node, const FaultPacket& packet) {
    return node == 0 && is_fragment(packet, 7);
  }};
  WorldConfig config;
  config.hook = std::ref(loss);
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  exchange.message(0, 1, 1, 1000000);
  REQUIRE(exchange.run(milliseconds(10)));
  exchange.check_all_ok();
  exchange.check_quiet();
  CHECK(loss.lost == 1);
  const EndpointStats sender = world.stats(0);
  CHECK(sender.fragments_retransmitted == 1);
  CHECK(sender.lost_by_gap == 1);
  CHECK(sender.spurious_retransmits == 0);
  CHECK(sender.ptos == 0);
  CHECK(world.stats(1).duplicate_fragments == 0);
  CHECK(world.stats(1).requests_sent == 0);
}

TEST_CASE("exact__the_last_fragment_is_lost_once", "[L7]") {
  Loss loss{[](std::uint32_t node, const FaultPacket& packet) {
    return node == 0 && is_fragment(packet, 9);
  }};
  WorldConfig config;
  config.hook = std::ref(loss);
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  exchange.message(0, 1, 1, 40960);
  REQUIRE(exchange.run(milliseconds(10)));
  exchange.check_all_ok();
  exchange.check_quiet();
  CHECK(loss.lost == 1);
  CHECK(world.stats(0).fragments_retransmitted == 1);
  CHECK(world.stats(1).duplicate_fragments == 0);
}

// Loses every control packet from node 1 for a while, once data flows.
TEST_CASE("exact__all_acks_of_three_round_trips_are_lost") {
  World* running = nullptr;
  proto::Time from = proto::kNever;
  proto::Time until{};
  std::size_t lost = 0;
  WorldConfig config;
  config.nics = 2;
  config.faults = "delay=100us,rate=1000000000";
  config.hook = [&](std::uint32_t node, std::uint32_t,
                    const FaultPacket& packet) -> std::optional<Fate> {
    if (node != 1 || packet.direction != engine::Direction::tx ||
        packet.queue != proto::Queue::control) {
      return {};
    }
    if (running->now() < from || !(running->now() < until)) return {};
    ++lost;
    return Fate{.drop = true};
  };
  World world(config);
  running = &world;
  world.connect_all();
  world.run_for(milliseconds(5));
  Exchange exchange(world);
  exchange.message(0, 1, 1, 5000000);
  from = world.now() + microseconds(500);
  until = from + microseconds(600);
  REQUIRE(exchange.run(milliseconds(100)));
  exchange.check_all_ok();
  exchange.check_quiet();
  CHECK(lost > 2);
  CHECK(world.stats(0).fragments_retransmitted == 0);
  CHECK(world.stats(0).evacuations == 0);
  CHECK(world.stats(1).duplicate_fragments == 0);
}

TEST_CASE("exact__the_last_status_is_lost_again_and_again", "[M2][M4]") {
  Loss loss{[](std::uint32_t node, const FaultPacket& packet) {
              return node == 1 && carries<proto::wire::StatusView>(packet);
            },
            5};
  WorldConfig config;
  config.hook = std::ref(loss);
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(5));
  Exchange exchange(world);
  exchange.message(0, 1, 1, 1000);
  REQUIRE(exchange.run(milliseconds(100)));
  exchange.check_all_ok();
  exchange.check_quiet();
  CHECK(loss.lost == 5);
  CHECK(world.stats(0).ptos + world.stats(0).message_probes_sent >= 5);
  CHECK(world.stats(0).fragments_retransmitted <= 1);
  CHECK(world.stats(1).messages_received == 1);
}

TEST_CASE("exact__a_grant_is_lost", "[M28]") {
  for (const std::uint64_t requests : {0, 1}) {
    Loss loss{[](std::uint32_t node, const FaultPacket& packet) {
                return node == 1 && carries<proto::wire::GrantBlock>(packet);
              },
              3};
    WorldConfig config;
    config.tunables.recovery_request = requests;
    config.hook = std::ref(loss);
    World world(config);
    world.connect_all();
    world.run_for(milliseconds(5));
    Exchange exchange(world);
    exchange.message(0, 1, 1, 1000000);
    REQUIRE(exchange.run(milliseconds(100)));
    exchange.check_all_ok();
    exchange.check_quiet();
    CHECK(loss.lost == 3);
  }
}

}  // namespace
}  // namespace hawser::test
