// SPDX-License-Identifier: Apache-2.0
// Messages that arrive before their receive: stored, stored in part, or not stored at all.
#include <catch2/catch.hpp>

#include "test/protocol/exchange.hpp"
#include "test/protocol/message_scene.hpp"
#include "test/support/seeded.hpp"

namespace hawser::test {
namespace {

using proto::milliseconds;

TEST_CASE("unexpected__is_kept_and_accepted_up_to_what_comes_unasked", "[M1][M14]") {
  for (const std::size_t bytes : {0, 1, 4096, 65536, 65537, 1000000}) {
    INFO(bytes << " bytes");
    World world({});
    world.connect_all();
    Exchange exchange(world);
    const auto sent = exchange.send(0, 1, 1, bytes);
    world.run_for(milliseconds(20));
    exchange.collect();
    CHECK(exchange.sent(sent).completion.has_value() == (bytes <= 65536));
    CHECK(world.stats(1).unexpected_bytes_held == std::min<std::size_t>(bytes, 65536));
    CHECK(world.stats(1).unexpected_messages == 1);
    (void)exchange.receive(1, 0, 1, bytes);
    REQUIRE(exchange.run(milliseconds(100)));
    exchange.check_all_ok();
    exchange.check_quiet();
    CHECK(world.stats(0).packets_lost == 0);
  }
}

TEST_CASE("unexpected__without_room_the_envelope_is_kept_and_the_bytes_come_later", "[M3][M13]") {
  for (const std::string faults : {"delay=5us", "delay=5us/30us,loss=0.1,duplicate=0.1"}) {
    WorldConfig config;
    config.faults = faults;
    config.tunables.unexpected_bytes = 65536;
    World world(config);
    world.connect_all();
    Exchange exchange(world);
    const std::vector<std::size_t> sizes = {50000, 40000, 0, 300000, 100, 65536, 20000, 1000000};
    for (std::size_t i = 0; i < sizes.size(); ++i) (void)exchange.send(0, 1, i, sizes[i]);
    world.run_for(milliseconds(100));
    const EndpointStats stats = world.stats(1);
    CHECK(stats.no_room_answers > 0);
    CHECK(stats.drops[static_cast<std::size_t>(DropReason::no_room)] > 0);
    CHECK(stats.unexpected_bytes_held <= 65536);
    Envelope envelope;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      CHECK(world.endpoint(1).probe(kAnyPeer, 0, i, kWholeTag, envelope) == Status::ok);
      CHECK(envelope.bytes == sizes[i]);
    }
    // The last ones are received first. Dropped messages must be sent again, and stored ones stay
    // correct.
    for (std::size_t i = sizes.size(); i-- > 0;) (void)exchange.receive(1, 0, i, sizes[i]);
    REQUIRE(exchange.run(milliseconds(1000)));
    exchange.check_all_ok();
    exchange.check_quiet();
  }
}

TEST_CASE("unexpected__no_room_is_no_loss_to_congestion_control") {
  WorldConfig config;
  config.tunables.unexpected_bytes = 65536;
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  for (std::uint64_t i = 0; i < 20; ++i) (void)exchange.send(0, 1, i, 60000);
  world.run_for(milliseconds(50));
  CHECK(world.stats(1).no_room_answers > 0);
  CHECK(world.stats(0).packets_lost == 0);
  CHECK(world.stats(0).ptos == 0);
  for (std::uint64_t i = 0; i < 20; ++i) (void)exchange.receive(1, 0, i, 60000);
  REQUIRE(exchange.run(milliseconds(100)));
  exchange.check_all_ok();
  CHECK(world.stats(0).packets_lost == 0);
  exchange.check_quiet();
}

TEST_CASE("unexpected__a_receiver_that_asks_for_nothing_still_gets_what_it_had_no_room_for",
          "[M4]") {
  // Without the receiver's requests the sender's own probes must find the missing fragments.
  for_each_seed(10, [](proto::Random& random) {
    WorldConfig config;
    config.seed = random.next();
    config.faults = "delay=5us,loss=0.2";
    config.tunables.unexpected_bytes = 65536;
    config.tunables.recovery_request = 0;
    World world(config);
    world.connect_all();
    Exchange exchange(world);
    for (std::uint64_t i = 0; i < 6; ++i) (void)exchange.send(0, 1, i, 50000);
    world.run_for(milliseconds(50));
    for (std::uint64_t i = 6; i-- > 0;) (void)exchange.receive(1, 0, i, 50000);
    REQUIRE(exchange.run(milliseconds(5000)));
    exchange.check_all_ok();
    exchange.check_quiet();
  });
}

TEST_CASE("unexpected__nothing_unscheduled_at_all") {
  WorldConfig config;
  config.tunables.unscheduled_bytes = 0;
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  for (std::uint64_t i = 0; i < 5; ++i) (void)exchange.send(0, 1, i, i * 30000);
  world.run_for(milliseconds(20));
  CHECK(world.stats(1).unexpected_bytes_held == 0);
  for (std::uint64_t i = 0; i < 5; ++i) (void)exchange.receive(1, 0, i, i * 30000);
  const proto::Time posted = world.now();
  REQUIRE(exchange.run(milliseconds(100)));
  CHECK((world.now() - posted).ns < milliseconds(10).ns);
  exchange.check_all_ok();
  exchange.check_quiet();
}

TEST_CASE("unexpected__more_unscheduled_than_the_bitmap_spans", "[M16]") {
  // 16 MiB in fragments of 256 bytes are 65536 fragments: twice what a bitmap covers at once.
  WorldConfig config;
  config.tunables.fragment_bytes = 256;
  config.tunables.unscheduled_bytes = 16777216;
  config.tunables.unexpected_bytes = 32 << 20;
  config.faults = "delay=5us/50us,loss=0.02";
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  (void)exchange.send(0, 1, 1, 16777216);
  world.run_for(milliseconds(100));
  (void)exchange.receive(1, 0, 1, 16777216);
  REQUIRE(exchange.run(milliseconds(20000)));
  exchange.check_all_ok();
  exchange.check_quiet();
}

// Three messages share a store of four fragments, and the first fragment of the last one found no
// room. Its second one was stored: it is not sent again.
TEST_CASE("unexpected__a_stopped_sender_goes_on_behind_what_is_stored", "[M3]") {
  MessageScene scene;
  constexpr std::uint64_t kBytes = 3 * MessageScene::kFragment;
  scene.data(0, 0, kBytes);
  scene.data(0, 1, kBytes);
  scene.data(1, 1, kBytes);
  scene.data(2, 1, kBytes);
  scene.data(2, 0, kBytes);
  scene.settle();
  CHECK(scene.heard(2).find("NO_ROOM") != std::string::npos);
  (void)scene.receive(scene.id, 2, kBytes);
  scene.settle();
  CHECK(scene.heard(2) == "grant 2-3, request 0 2");
  scene.granted(2, 0, kBytes, scene.grant().rx_slot, scene.grant().rx_generation);
  scene.granted(2, 2, kBytes, scene.grant().rx_slot, scene.grant().rx_generation);
  scene.settle();
  CHECK(scene.ended() == "ok");
  CHECK(scene.heard(2) == "DELIVERED");
}

}  // namespace
}  // namespace hawser::test
