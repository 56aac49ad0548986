// SPDX-License-Identifier: Apache-2.0
// Scenes of paths, as lists of events. One has a path that passes only small packets, the other a
// slot that is bound again while packets of its old path are in flight.
#include <catch2/catch.hpp>

#include "test/protocol/exchange.hpp"
#include "test/protocol/packets.hpp"
#include "test/protocol/timeline.hpp"

namespace hawser::test {
namespace {

using engine::Fate;
using engine::FaultPacket;
using proto::microseconds;
using proto::milliseconds;
using proto::wire::PacketType;

// (15) A path passes small packets and drops full ones (a switch with a smaller MTU, a bad optic).
// Small packets get through, acknowledgements too, so the path looks alive to small probes.
TEST_CASE("scenario_15__a_path_passes_small_packets_and_drops_full_ones", "[P6]") {
  bool broken = false;
  std::uint64_t swallowed = 0;
  WorldConfig config;
  config.nics = 2;
  config.faults = "delay=20us,rate=1000000000";
  config.hook = [&](std::uint32_t node, std::uint32_t nic,
                    const FaultPacket& packet) -> std::optional<Fate> {
    if (!broken || node != 0 || nic != 0 || packet.direction != engine::Direction::tx) return {};
    if (packet.header.size() + packet.payload.size() < 1500) return {};
    ++swallowed;
    return Fate{.drop = true};
  };
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  const auto stream = [&](int count, std::size_t bytes) {
    const proto::Time begin = world.now();
    for (int i = 0; i < count; ++i) exchange.message(0, 1, 1, bytes);
    REQUIRE(exchange.run(milliseconds(5000)));
    return (world.now() - begin).ns;
  };
  (void)stream(20, 1000000);
  const auto whole = stream(20, 1000000);
  broken = true;
  const auto finding_out = stream(20, 1000000);
  const std::uint64_t until_found = swallowed;
  const auto after = stream(20, 1000000);
  INFO("20 MB take " << whole / 1000 << " us on both paths, " << finding_out / 1000
                     << " us while one gets bad, " << after / 1000 << " us after that; "
                     << until_found << ", then " << swallowed - until_found
                     << " packets swallowed; " << world.stats(0).evacuations << " evacuations, "
                     << world.stats(0).paths_down << " times down");
  CHECK(world.stats(0).paths_down > 0);
  CHECK(until_found < 2000);
  // From then on only probes go there; the rest goes at the other path's rate.
  CHECK(swallowed - until_found < 50);
  CHECK(after < whole * 5 / 2);
  // When the path passes all packets again, it is used again.
  broken = false;
  REQUIRE(world.run_until([&] { return world.stats(0).paths_returned > 0; }, milliseconds(1000)));
  CHECK(stream(20, 1000000) < whole * 5 / 4);
  exchange.check_all_ok();
  exchange.check_quiet();
}

// (16) A path is bound again while more than 40 packets of its old binding are in flight. Here it
// is a bridge. It was dropped when the path that it replaced answered again, and then it is needed
// once more. The old packets arrive after packets of the new binding. Neither they nor their
// acknowledgements touch the new binding's numbers, and everything arrives once.
TEST_CASE("scenario_16__a_slot_is_bound_anew_with_40_packets_in_flight", "[P8]") {
  std::uint8_t slot = 0xff;  // of the bridge
  std::uint8_t newest = 0;   // generation of its last binding
  std::uint8_t held_of = 0;  // the generation whose packets are held up; 0: none
  std::size_t held = 0;
  std::size_t of_the_new = 0;  // packets of a later binding that left meanwhile
  WorldConfig config;
  config.nics = 2;
  config.faults = "delay=20us,rate=1000000000";
  config.hook = [&](std::uint32_t node, std::uint32_t,
                    const FaultPacket& packet) -> std::optional<Fate> {
    if (node != 0 || packet.direction != engine::Direction::tx) return {};
    const auto view = view_of(packet);
    if (!rule_of(view.type).sequenced || (view.header->slot & 15) < 2) return {};
    slot = view.header->slot & 15;
    newest = view.header->generation;
    if (held_of != 0 && newest != held_of) ++of_the_new;
    if (newest != held_of) return {};
    ++held;
    return Fate{.delay = milliseconds(60)};
  };
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(5));
  Exchange exchange(world);
  std::uint64_t tag = 0;
  const auto stream = [&](int count) {
    for (int i = 0; i < count; ++i, ++tag) exchange.message(0, 1, tag, 1000000);
  };
  const auto kill = [&] {
    world.apply(0, 1, "kill");
    world.apply(1, 0, "kill");
  };
  const auto bridge_carries = [&] { return newest != 0 && exchange.settled(); };
  play(world, {{milliseconds(0), kill}, {milliseconds(1), [&] { stream(10); }}});
  REQUIRE(world.run_until(bridge_carries, milliseconds(500)));
  REQUIRE(slot != 0xff);
  const std::uint8_t first = newest;
  stream(40);
  world.run_for(milliseconds(1));
  held_of = newest;  // in the middle of the stream
  REQUIRE(world.run_until([&] { return held >= 40; }, milliseconds(50)));
  // The path that the bridge replaced returns, and the bridge goes away with its packets in flight.
  world.apply(1, 0, "revive:event");
  REQUIRE(world.run_until([&] { return world.stats(0).paths_returned > 0; }, milliseconds(40)));
  world.run_for(microseconds(200));
  world.apply(1, 0, "kill:event");
  REQUIRE(world.run_until([&] { return of_the_new > 0; }, milliseconds(40)));
  CHECK(newest != first);
  REQUIRE(exchange.run(milliseconds(2000)));
  world.run_for(milliseconds(100));  // now the old packets have come
  const auto stale = [&](std::uint32_t node) { return world.drops(node, DropReason::stale_path); };
  INFO(held << " packets of the old binding were held up");
  CHECK(stale(1) >= 40);
  CHECK(world.drops(0, DropReason::bad_field) == 0);
  exchange.check_all_ok();
  for (const std::uint32_t node : {0u, 1u}) world.apply(node, "revive:event");
  exchange.check_quiet(milliseconds(1000));
}

}  // namespace
}  // namespace hawser::test
