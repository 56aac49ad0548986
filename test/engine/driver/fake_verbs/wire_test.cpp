// SPDX-License-Identifier: Apache-2.0
// The verbs NIC's fields on the wire, written and read, in cases that soft RoCE can't show: flow
// labels, congestion marks over IPv4, InfiniBand.
#include <set>

#include "test/engine/driver/fake_verbs/two_nics.hpp"

namespace hawser::test {
namespace {

// The RoCE source port that the kernel derives from a flow label.
std::uint16_t source_port(std::uint32_t flow_label) {
  return ibv_flow_label_to_udp_sport(flow_label);
}

template <class Rig>
void send_with(TwoNics<Rig>& two, std::uint16_t entropy) {
  PacketBuffer* buffer = nullptr;
  REQUIRE(two.rig.pool.take({&buffer, 1}) == 1);
  fill({buffer->bytes, 200}, entropy);
  const TxPacket packet{
      .buffer = buffer, .header_bytes = 200, .remote = two.to_theirs, .entropy = entropy};
  REQUIRE(send_now(two.mine, {&packet, 1}) == 1);
  (void)two.reap();
  CHECK(two.rig.settle(two.theirs).size() == 1);
}

}  // namespace

TEMPLATE_TEST_CASE("verbs NIC: each entropy has a source port of its own", "", PooledVerbsRig,
                   PooledV4Rig) {
  TwoNics<TestType> two;
  const std::uint16_t entropies = two.mine.caps().entropies;
  REQUIRE(entropies == 4);
  std::vector<std::uint64_t> before;
  for (const fake::HandleInfo& handle : two.fabric().handles(kMine)) before.push_back(handle.sent);
  REQUIRE(before.size() == entropies);
  for (std::uint16_t entropy = 0; entropy < entropies; ++entropy) {
    for (int i = 0; i <= entropy; ++i) send_with(two, entropy);
  }
  std::set<std::uint16_t> ports;
  std::multiset<std::uint64_t> sent;
  for (const fake::HandleInfo& handle : two.fabric().handles(kMine)) {
    const ibv_global_route& grh = handle.attributes.grh;
    CHECK(grh.flow_label > 0);
    CHECK(grh.flow_label < 1u << 20);
    CHECK((grh.traffic_class & 3) == 2);  // ECN-capable
    CHECK(handle.attributes.is_global == 1);
    ports.insert(source_port(grh.flow_label));
    sent.insert(handle.sent);
  }
  CHECK(ports.size() == entropies);
  CHECK(sent == std::multiset<std::uint64_t>{1, 2, 3, 4});
}

TEST_CASE("verbs NIC: on InfiniBand a remote is a LID, and there is one way to it") {
  TwoNics<PooledInfinibandRig> two;
  CHECK(two.mine.caps().entropies == 1);
  const auto handles = two.fabric().handles(kMine);
  REQUIRE(handles.size() == 1);
  CHECK(handles[0].attributes.dlid == 11);
  CHECK(handles[0].attributes.is_global == 0);
  two.works();
  CHECK(two.fabric().counters(kTheirs).delivered >= 200);
}

TEMPLATE_TEST_CASE("verbs NIC: marks of congestion are read, whatever lies before them", "",
                   PooledVerbsRig, PooledV4Rig) {
  // Over IPv4, 20 arbitrary bytes come first. These look like a marked IPv6 header.
  for (const unsigned filler : {0x00u, 0xffu, 0x6fu, 0x63u, 0x45u}) {
    CAPTURE(filler);
    TwoNics<TestType> two;
    two.fabric().change(kTheirs, [&](fake::DeviceSettings& settings) {
      settings.grh_filler = static_cast<std::byte>(filler);
    });
    for (const bool marked : {false, true, false}) {
      two.fabric().mark(marked);
      two.send(0, 10);
      std::array<RxPacket, 64> packets;
      REQUIRE(two.theirs.rx_burst(Queue::data, packets) == 10);
      for (std::size_t i = 0; i < 10; ++i) {
        CHECK(packets[i].congestion_experienced == marked);
      }
      CHECK(two.reap().size() == 10);
    }
  }
}

TEST_CASE("verbs NIC: datagrams with another QKey are kept away, and counted by the device") {
  TwoNics<PooledVerbsRig> two;
  proto::NicAddress forged = two.theirs.address();
  forged.bytes[engine::VerbsAddressLayout::kQkey] ^= std::byte{1};
  RemoteHandle wrong = proto::kNoRemote;
  REQUIRE(two.mine.open_remote(forged, wrong) == Status::ok);
  Burst burst(two.rig.pool);
  for (std::uint64_t id = 0; id < 30; ++id) burst.add({.id = id, .remote = wrong});
  two.rig.send_all(two.mine, burst);
  CHECK(two.reap().size() == 30);
  CHECK(two.rig.settle(two.theirs).empty());
  CHECK(two.fabric().counters(kTheirs).qkey_violations == 30);
  two.works();
}

TEST_CASE("verbs NIC: another partition, another MTU: nothing comes, and nothing breaks") {
  TwoNics<PooledVerbsRig> two;
  two.fabric().change(kTheirs, [](fake::DeviceSettings& device) { device.ports[0].pkey = 0x8001; });
  two.send(0, 10);
  CHECK(two.reap().size() == 10);
  CHECK(two.rig.settle(two.theirs).empty());
  CHECK(two.fabric().counters(kTheirs).pkey_violations == 10);
  two.fabric().change(kTheirs, [](fake::DeviceSettings& device) {
    device.ports[0].pkey = 0xffff;
    device.ports[0].mtu = IBV_MTU_256;
  });
  two.send(0, 10);
  CHECK(two.reap().size() == 10);
  CHECK(two.rig.settle(two.theirs).empty());
  two.fabric().change(kTheirs,
                      [](fake::DeviceSettings& device) { device.ports[0].mtu = IBV_MTU_4096; });
  two.works();
}

}  // namespace hawser::test
