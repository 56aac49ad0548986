// SPDX-License-Identifier: Apache-2.0
// Whole endpoints over the double of libibverbs. Its devices leave and return as other devices.
// Every message arrives, and the NIC that returns carries its share again, wherever it is now.
#include <cerrno>

#include "engine/driver/verbs/verbs.hpp"
#include "test/engine/driver/conformance/fake_rigs.hpp"
#include "test/engine/verbs_pair.hpp"

namespace hawser::engine {
namespace {

using test::Cables;
using test::Infiniband;
using test::RoceV4;
using test::RoceV6;
using test::fake::Fabric;

// Packets that the first NIC of `to` has received.
std::uint64_t by_first(const Endpoint& to) { return to.nic_stats()[0].packets_received; }

// Sends messages in both directions until both first NICs have received again. That takes a while,
// since the probes of a path that is down come some time apart.
bool carries_again(VerbsPair& pair, std::uint64_t& seed) {
  const std::uint64_t a = by_first(*pair.a);
  const std::uint64_t b = by_first(*pair.b);
  for (const HangLimit limit; !limit.is_over();) {
    pair.exchange(*pair.a, 100'000, seed++);
    pair.exchange(*pair.b, 100'000, seed++);
    pair.a->wait({}, 1'000'000);
    pair.b->wait({}, 1'000'000);
    if (by_first(*pair.a) >= a + 20 && by_first(*pair.b) >= b + 20) return true;
  }
  return false;
}

test::fake::DeviceSettings device_with(const char* gid) {
  test::fake::PortSettings port;
  port.gids.push_back({0, IBV_GID_TYPE_ROCE_V2, test::fake::gid_of(gid)});
  test::fake::DeviceSettings device;
  device.name = "rxe_a0";
  device.ports.push_back(port);
  return device;
}

// The events about its first NIC that an endpoint gets from the NIC's driver.
struct Told {
  bool down = false;
  bool up = false;
  bool moved = false;

  void look(Endpoint& endpoint) {
    Event event;
    while (endpoint.poll_events({&event, 1}) == 1) {
      if (event.nic != 0) continue;
      down = down || event.kind == Event::Kind::nic_down;
      up = up || event.kind == Event::Kind::nic_up;
      moved = moved || event.kind == Event::Kind::nic_moved;
    }
  }
};

// Sends messages in both directions until `a` gets this event.
bool is_told(VerbsPair& pair, Told& told, bool Told::*what, std::uint64_t& seed) {
  for (const HangLimit limit; !limit.is_over();) {
    told.look(*pair.a);
    if (told.*what) return true;
    pair.exchange(*pair.a, 10'000, seed++);
    pair.exchange(*pair.b, 10'000, seed++);
    pair.a->wait({}, 1'000'000);
    pair.b->wait({}, 1'000'000);
  }
  return false;
}

struct Failure {
  const char* name;
  void (*strike)(Fabric&);
  bool moves;  // the NIC returns with other queue pairs
};
std::ostream& operator<<(std::ostream& out, const Failure& failure) { return out << failure.name; }

const Failure kFailures[] = {
    {"queue pair",
     [](Fabric& fabric) { fabric.raise_of_pair(fabric.pairs("rxe_a0")[0], IBV_EVENT_QP_FATAL); },
     false},
    {"completion queue",
     [](Fabric& fabric) {
       fabric.raise_of_completions(fabric.pairs("rxe_a0")[0], test::fake::Side::receive);
     },
     true},
    {"device", [](Fabric& fabric) { fabric.raise("rxe_a0", IBV_EVENT_DEVICE_FATAL); }, true},
};

}  // namespace

TEST_CASE("VerbsReturns__first_nic_fails_with_a_message_under_way") {
  const auto& failure = GENERATE(from_range(std::begin(kFailures), std::end(kFailures)));
  const unsigned threads = GENERATE(0u, 1u);
  CAPTURE(failure, threads);
  Cables cables(RoceV6{}, IBV_MTU_4096);
  VerbsPair pair(threads);
  std::uint64_t seed = 1;
  REQUIRE(carries_again(pair, seed));
  const std::vector<std::uint32_t> before = cables.fabric.pairs("rxe_a0");
  std::vector<std::byte> received(3'000'000);
  const std::vector<std::byte> sent = pattern(received.size(), 77);
  post_receive(*pair.b, kAnyPeer, 1'000'000, received);
  post_send(*pair.a, pair.b_of_a, 1'000'000, sent);
  pair.a->wait({}, 0);
  failure.strike(cables.fabric);
  CHECK(pair.next(*pair.b).status == Status::ok);
  const Completion at_sender = pair.next(*pair.a);
  CHECK(at_sender.status == Status::ok);
  CHECK(at_sender.released);
  CHECK(received == sent);
  Told told;
  CHECK(is_told(pair, told, &Told::up, seed));
  CHECK(carries_again(pair, seed));
  told.look(*pair.a);
  CHECK(told.down);
  CHECK(told.moved == failure.moves);
  CHECK((cables.fabric.pairs("rxe_a0") != before) == failure.moves);
  CHECK(pair.gets_quiet());
}

TEST_CASE("VerbsReturns__port_goes_down_and_up") {
  using test::fake::WhenDown;
  const WhenDown when_down = GENERATE(WhenDown::fails, WhenDown::loses, WhenDown::stalls);
  CAPTURE(static_cast<int>(when_down));
  Cables cables(RoceV6{}, IBV_MTU_4096);
  cables.fabric.change("rxe_a0", [&](auto& settings) { settings.when_down = when_down; });
  VerbsPair pair(0);
  std::uint64_t seed = 1;
  REQUIRE(carries_again(pair, seed));
  cables.fabric.set_port("rxe_a0", 1, IBV_PORT_DOWN);
  Told told;
  CHECK(is_told(pair, told, &Told::down, seed));
  pair.exchange(*pair.a, 200'000, seed++);
  pair.exchange(*pair.b, 200'000, seed++);
  told.look(*pair.a);
  CHECK_FALSE(told.up);
  cables.fabric.set_port("rxe_a0", 1, IBV_PORT_ACTIVE);
  CHECK(is_told(pair, told, &Told::up, seed));
  CHECK(carries_again(pair, seed));
  CHECK_FALSE(told.moved);
  CHECK(pair.gets_quiet());
}

// A port goes down without an event: sends complete with success, and are lost.
TEST_CASE("VerbsReturns__silent_loss_with_good_completions") {
  Cables cables(RoceV6{}, IBV_MTU_4096);
  const auto set_silently = [&](ibv_port_state state) {
    cables.fabric.change("rxe_a0", [&](test::fake::DeviceSettings& settings) {
      settings.when_down = test::fake::WhenDown::loses;
      settings.ports[0].state = state;
    });
  };
  VerbsPair pair(0);
  std::uint64_t seed = 1;
  REQUIRE(carries_again(pair, seed));
  set_silently(IBV_PORT_DOWN);
  const auto gives_up = [&] { return pair.a->stats().paths_down > 0; };
  for (const HangLimit limit; !(gives_up() || limit.is_over());) {
    pair.exchange(*pair.a, 500'000, seed++);
    pair.exchange(*pair.b, 500'000, seed++);
    pair.a->wait({}, 1'000'000);
    pair.b->wait({}, 1'000'000);
  }
  CHECK(gives_up());
  CHECK(pair.a->stats().packets_lost > 0);
  const std::uint64_t returned = pair.a->stats().paths_returned;
  set_silently(IBV_PORT_ACTIVE);
  const auto returns = [&] { return pair.a->stats().paths_returned > returned; };
  for (const HangLimit limit; !(returns() || limit.is_over());) {
    pair.exchange(*pair.a, 100'000, seed++);
    pair.a->wait({}, 1'000'000);
    pair.b->wait({}, 1'000'000);
  }
  CHECK(returns());
  CHECK(carries_again(pair, seed));
  Told told;
  told.look(*pair.a);
  CHECK_FALSE(told.down);  // its driver noticed nothing
  CHECK(pair.gets_quiet());
}

TEST_CASE("VerbsReturns__ends_in_different_partitions_find_nobody_and_the_ports_say_why") {
  Cables cables(Infiniband{}, IBV_MTU_4096);
  for (const char* const device : {"rxe_b0", "rxe_b1"}) {
    cables.fabric.change(device, [](auto& settings) { settings.ports[0].pkey = 0x8002; });
  }
  const std::vector<std::byte> sent = pattern(100, 1);
  {
    Tunables tunables = patient();
    tunables.peer_timeout_ms = 500;
    VerbsPair pair(0, tunables);
    post_send(*pair.a, pair.b_of_a, 1, sent);
    CHECK(pair.next(*pair.a).status == Status::peer_unreachable);
  }
  // Now with a long timeout, since a thread of the resolver may wait long for a processor.
  Tunables tunables = patient();
  tunables.peer_timeout_ms = 600'000;
  VerbsPair pair(0, tunables);
  post_send(*pair.a, pair.b_of_a, 1, sent);
  CHECK(pair.turn_until([&] {
    return pair.a->stats().handshakes_sent > 0 &&
           verbs_port({.device = "rxe_b0"}).pkey_violations > 0;
  }));
  const VerbsPortInfo theirs = verbs_port({.device = "rxe_b0"});
  CHECK(theirs.pkey_violations > 0);
  CHECK_THAT(theirs.description, Catch::Contains("P_Key 0x8002; it has rejected") &&
                                     Catch::Contains("with a wrong P_Key"));
  CHECK_THAT(verbs_port({.device = "rxe_a0"}).description, Catch::Contains("P_Key 0xffff"));
}

TEST_CASE("VerbsReturns__nobody_answers_for_the_addresses_so_no_handshake_leaves") {
  Cables cables(RoceV6{}, IBV_MTU_4096);
  cables.fabric.fail(test::fake::Call::create_ah, ETIMEDOUT, 0, ~std::uint64_t{0});
  Tunables tunables = patient();
  tunables.peer_timeout_ms = 500;
  VerbsPair pair(0, tunables);
  const std::vector<std::byte> sent = pattern(100, 1);
  post_send(*pair.a, pair.b_of_a, 1, sent);
  CHECK(pair.next(*pair.a).status == Status::peer_unreachable);
  CHECK(pair.a->stats().handshakes_sent == 0);
}

TEST_CASE("VerbsReturns__device_is_removed_and_added_again_elsewhere") {
  Cables cables(RoceV6{}, IBV_MTU_4096);
  VerbsPair pair(GENERATE(0u, 1u));
  std::uint64_t seed = 1;
  REQUIRE(carries_again(pair, seed));
  for (const char* const gid : {"fe80::aa0", "fe80::aa1", "fe80::a0"}) {
    CAPTURE(gid);
    // A message is under way meanwhile.
    std::vector<std::byte> received(3'000'000);
    const std::vector<std::byte> sent = pattern(received.size(), 77);
    post_receive(*pair.b, kAnyPeer, 1'000'000, received);
    post_send(*pair.a, pair.b_of_a, 1'000'000, sent);
    pair.a->wait({}, 0);
    cables.fabric.remove("rxe_a0");
    CHECK(pair.next(*pair.b).status == Status::ok);
    const Completion at_sender = pair.next(*pair.a);
    CHECK(at_sender.status == Status::ok);
    CHECK(at_sender.released);
    CHECK(received == sent);
    pair.exchange(*pair.a, 200'000, seed++);
    pair.exchange(*pair.b, 200'000, seed++);
    cables.fabric.add(device_with(gid));
    CHECK(carries_again(pair, seed));
  }
  CHECK(pair.gets_quiet());
}

TEST_CASE("VerbsReturns__gid_of_either_end_changes") {
  Cables cables(RoceV4{}, IBV_MTU_1024);
  VerbsPair pair(0);
  std::uint64_t seed = 1;
  REQUIRE(carries_again(pair, seed));
  const auto give = [&](const char* device, const char* address) {
    cables.fabric.set_gids(device, 1, {{0, IBV_GID_TYPE_ROCE_V2, test::fake::gid_of(address)}});
  };
  give("rxe_a0", "10.0.0.77");
  CHECK(carries_again(pair, seed));
  give("rxe_b0", "10.0.0.78");
  CHECK(carries_again(pair, seed));
  // Both ends of a cable get new addresses at once.
  give("rxe_a0", "10.0.0.79");
  give("rxe_b0", "10.0.0.80");
  CHECK(carries_again(pair, seed));
  CHECK(pair.gets_quiet());
}

TEST_CASE("VerbsReturns__ends_of_different_mtu_agree_on_the_smaller") {
  Cables cables(RoceV6{}, IBV_MTU_4096);
  cables.fabric.change(
      "rxe_b1", [](test::fake::DeviceSettings& device) { device.ports[0].mtu = IBV_MTU_1024; });
  VerbsPair pair(0);
  std::uint64_t seed = 1;
  CHECK(carries_again(pair, seed));
  CHECK(pair.a->nic_stats()[1].packets_sent > 0);
  CHECK(pair.b->nic_stats()[1].packets_sent > 0);
  CHECK(pair.gets_quiet());
}

TEST_CASE("VerbsReturns__traffic_class_and_service_level_are_taken_from_the_tunables") {
  Cables cables(RoceV6{}, IBV_MTU_4096);
  Tunables tunables = patient();
  tunables.verbs_traffic_class = 104;
  tunables.verbs_service_level = 3;
  VerbsPair pair(0, tunables);
  pair.exchange(*pair.a, 10'000, 1);
  const auto handles = cables.fabric.handles("rxe_a0");
  REQUIRE(!handles.empty());
  CHECK(handles[0].attributes.grh.traffic_class == 106);
  CHECK(handles[0].attributes.sl == 3);
  tunables.verbs_traffic_class = 105;
  CHECK_THROWS_WITH(VerbsPair(0, tunables), Catch::Contains("low two bits"));
}

}  // namespace hawser::engine
