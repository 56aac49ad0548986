// Whole endpoints over the double of libibverbs, whose devices leave and return as others: every
// message arrives, and the NIC that is back carries its share again, wherever it is now.
#include "test/engine/driver/conformance/fake_rigs.hpp"
#include "test/engine/verbs_pair.hpp"

namespace hawser::engine {
namespace {

using test::Cables;
using test::RoceV4;
using test::RoceV6;
using test::fake::Fabric;

// Packets that the first NIC of `to` has received.
std::uint64_t by_first(const Endpoint& to) { return to.nic_stats()[0].packets_received; }

// Messages both ways, until both first NICs have received again. Probes of paths that are down come
// some time apart.
bool carries_again(VerbsPair& pair, std::uint64_t& seed) {
  const std::uint64_t a = by_first(*pair.a);
  const std::uint64_t b = by_first(*pair.b);
  for (std::uint64_t waited = 0; waited < kPatienceNs; waited += 2'000'000) {
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

}  // namespace

TEST_CASE("VerbsReturns__device_is_removed_and_added_again_elsewhere") {
  Cables cables(RoceV6{}, IBV_MTU_4096);
  VerbsPair pair(GENERATE(0u, 1u));
  std::uint64_t seed = 1;
  REQUIRE(carries_again(pair, seed));
  for (const char* const gid : {"fe80::aa0", "fe80::aa1", "fe80::a0"}) {
    CAPTURE(gid);
    // With a message under way.
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
  // Both ends of a cable at once.
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
