// SPDX-License-Identifier: Apache-2.0
// A verbs NIC whose device leaves and returns with other GIDs, or as another device. Every send
// comes back once, the NIC registers its memory again, and it has the new address.
#include <thread>

#include "test/engine/driver/fake_verbs/two_nics.hpp"

namespace hawser::test {
namespace {

using fake::Call;
using fake::Fabric;
using fake::GidRow;
using Kind = proto::NicEvent::Kind;
using Two = TwoNics<PooledVerbsRig>;
using TwoV4 = TwoNics<PooledV4Rig>;
using TwoInfiniband = TwoNics<PooledInfinibandRig>;

GidRow row(std::uint32_t index, const char* address) {
  return {index, IBV_GID_TYPE_ROCE_V2, fake::gid_of(address)};
}

engine::VerbsAddress where(const Nic& nic) {
  engine::VerbsAddress address;
  REQUIRE(from_nic_address(nic.address(), address));
  return address;
}

fake::DeviceSettings device_like(const char* name, const char* gid) {
  fake::PortSettings port;
  port.gids.push_back(row(0, gid));
  fake::DeviceSettings device;
  device.name = name;
  device.ports.push_back(port);
  return device;
}

// Whether the NIC reports no event for a while in which nothing changes.
bool stays_down(Nic& nic) {
  std::array<proto::NicEvent, 1> events;
  bool heard = false;
  for (int round = 0; round < 400; ++round) {
    heard = heard || nic.events(events) > 0;
    (void)::poll(nullptr, 0, 1);
  }
  return !heard;
}

}  // namespace

TEST_CASE("verbs NIC: its GID changes: it returns with the new one, on new address handles") {
  Two two;
  const engine::VerbsAddress before = where(two.mine);
  for (const char* const gid : {"fe80::aa", "fe80::ab"}) {
    two.send(0, 20);
    two.fabric().set_gids(kMine, 1, {row(0, gid)});
    two.returns(20);
    const engine::VerbsAddress after = where(two.mine);
    CHECK(after.gid == fake::gid_of(gid));
    CHECK(after.data_qpn == before.data_qpn);
    CHECK(after.qkey == before.qkey);
  }
}

// Whichever of the resolver's threads was refused, and however late: a thread that tries again must
// notice the answer, even if it had looked before.
TEST_CASE("verbs NIC: nobody answers when handles are made anew, then somebody does") {
  Two two;
  for (int round = 0; round < 12; ++round) {
    two.fabric().block_handles(true);
    two.fabric().fail(Call::create_ah, ETIMEDOUT, 2, 1);  // among the entropies' handles
    two.fabric().set_gids(kMine, 1, {row(0, round % 2 == 0 ? "fe80::aa" : "fe80::ab")});
    REQUIRE(hears(two.mine, Kind::down));
    REQUIRE(hears(two.mine, Kind::up));
    while (two.fabric().handles_blocked() == 0) (void)::poll(nullptr, 0, 1);
    (void)::poll(nullptr, 0, 10);
    two.fabric().block_handles(false);
    two.opens_anew();
    two.works();
  }
}

TEST_CASE("verbs NIC: its GID moves in the table: its address stays, its handles don't") {
  Two two;
  const proto::NicAddress before = two.mine.address();
  two.fabric().set_gids(kMine, 1, {row(0, "fe80::aa"), row(7, "fe80::a0")});
  two.returns(0);
  CHECK(two.mine.address() == before);
  for (const fake::HandleInfo& handle : two.fabric().handles(kMine)) {
    CHECK(handle.attributes.grh.sgid_index == 7);
  }
}

TEST_CASE("verbs NIC: a better GID, or another's, changes nothing while its own is there") {
  Two two;
  two.fabric().set_gids(kMine, 1, {row(0, "fe80::a0"), row(1, "10.1.2.3"), row(2, "2001:db8::1")});
  while (two.fabric().events_waiting(kMine) > 0) (void)::poll(nullptr, 0, 1);
  CHECK(stays_down(two.mine));  // the NIC reports nothing of it
  two.works();
}

TEST_CASE("verbs NIC: its GID is gone: it is down until there is one that its peers can reach") {
  Two two;
  two.fabric().set_gids(kMine, 1, {row(1, "10.1.2.3")});
  REQUIRE(hears(two.mine, Kind::down));
  CHECK(stays_down(two.mine));
  two.fabric().set_gids(kMine, 1, {row(1, "10.1.2.3"), row(2, "fe80::1:a0")});
  two.comes_up();
  CHECK(where(two.mine).gid == fake::gid_of("fe80::1:a0"));
  two.works();
}

TEST_CASE("verbs NIC: over IPv4, its address is given to another") {
  TwoV4 two;
  two.fabric().set_gids(kMine, 1, {row(0, "10.0.0.77"), row(1, "fe80::a0")});
  two.returns(0);
  CHECK(where(two.mine).gid == fake::gid_of("10.0.0.77"));
}

TEST_CASE("verbs NIC: a GID index that was asked for is used whatever lies there") {
  PooledVerbsRig rig;
  rig.fabric.set_gids(kMine, 1, {row(0, "fe80::a0"), row(3, "fe80::a3")});
  engine::VerbsNicConfig config = verbs_config(kMine);
  config.port.gid_index = 3;
  engine::VerbsNic mine(config, rig.pool);
  CHECK(where(mine).gid == fake::gid_of("fe80::a3"));
  rig.fabric.set_gids(kMine, 1, {row(0, "fe80::a3"), row(3, "fe80::a4")});
  REQUIRE(hears(mine, Kind::down));
  REQUIRE(hears(mine, Kind::up));
  CHECK(where(mine).gid == fake::gid_of("fe80::a4"));
  rig.fabric.set_gids(kMine, 1, {row(0, "fe80::a4")});
  REQUIRE(hears(mine, Kind::down));
  CHECK(stays_down(mine));
}

TEST_CASE("verbs NIC: its GID changes while its port is down") {
  Two two;
  two.fabric().set_port(kMine, 1, IBV_PORT_DOWN);
  REQUIRE(hears(two.mine, Kind::down));
  two.fabric().set_gids(kMine, 1, {});
  two.fabric().set_gids(kMine, 1, {row(0, "fe80::aa")});
  CHECK(stays_down(two.mine));
  two.fabric().set_port(kMine, 1, IBV_PORT_ACTIVE);
  two.comes_up();
  CHECK(where(two.mine).gid == fake::gid_of("fe80::aa"));
  two.works();
}

TEST_CASE("verbs NIC: a subnet manager gives its port another LID, or another P_Key") {
  TwoInfiniband two;
  two.fabric().change(kMine, [](fake::DeviceSettings& device) { device.ports[0].lid = 77; });
  two.fabric().raise(kMine, IBV_EVENT_LID_CHANGE);
  two.returns(0);
  CHECK(where(two.mine).lid == 77);
  const proto::NicAddress before = two.mine.address();
  for (const std::string& name : {kMine, kTheirs}) {
    two.fabric().change(name, [](fake::DeviceSettings& device) { device.ports[0].pkey = 0x8001; });
  }
  two.fabric().raise(kMine, IBV_EVENT_PKEY_CHANGE);
  two.returns(0);
  CHECK(two.mine.address() == before);
  two.fabric().change(kMine, [](fake::DeviceSettings& device) { device.ports[0].pkey = 0; });
  two.fabric().raise(kMine, IBV_EVENT_PKEY_CHANGE);
  REQUIRE(hears(two.mine, Kind::down));
  CHECK(stays_down(two.mine));
}

TEST_CASE("verbs NIC: its port returns with a smaller MTU: it can't be what it was") {
  Two two;
  two.fabric().set_port(kMine, 1, IBV_PORT_DOWN);
  REQUIRE(hears(two.mine, Kind::down));
  two.rig.set_mtu("a0", "1500");
  two.fabric().set_port(kMine, 1, IBV_PORT_ACTIVE);
  CHECK(stays_down(two.mine));
  two.rig.set_mtu("a0", "4200");
  REQUIRE(hears(two.mine, Kind::up));
  two.works();
}

TEST_CASE("verbs NIC: its device is removed and added again, with another GID") {
  for (const auto removal : {Fabric::Removal::told, Fabric::Removal::silent}) {
    CAPTURE(static_cast<int>(removal));
    Two two;
    std::vector<std::byte> registered(100'000);
    REQUIRE(two.mine.register_memory(registered.data(), registered.size()) == Status::ok);
    const engine::VerbsAddress before = where(two.mine);
    two.fabric().hold(true);
    two.send(0, 40);
    two.send(100, 40, Queue::control);
    two.fabric().remove(kMine, removal);
    REQUIRE(hears(two.mine, Kind::down));
    two.send(200, 30);
    // Every send comes back once, although the device does not, and the NIC closes the device.
    std::vector<std::uint64_t> reaped;
    CHECK(comes_true([&] {
      std::array<proto::NicEvent, 1> events;
      CHECK(two.mine.events(events) == 0);
      const auto some = two.reap();
      reaped.insert(reaped.end(), some.begin(), some.end());
      return reaped.size() >= 110 && two.fabric().removed_in_use() == 0;
    }));
    std::sort(reaped.begin(), reaped.end());
    CHECK(reaped.size() == 110);
    CHECK(std::adjacent_find(reaped.begin(), reaped.end()) == reaped.end());
    CHECK(two.fabric().removed_in_use() == 0);
    // The user registers and deregisters memory meanwhile.
    std::vector<std::byte> later(100'000);
    CHECK(two.mine.register_memory(later.data(), later.size()) == Status::ok);
    two.mine.deregister_memory(registered.data(), registered.size());
    two.fabric().hold(false);
    two.fabric().add(device_like("rxe_a0", "fe80::a7"));
    two.comes_up();
    CHECK(where(two.mine).gid == fake::gid_of("fe80::a7"));
    CHECK(where(two.mine).data_qpn != before.data_qpn);
    CHECK(where(two.mine).qkey == before.qkey);
    two.works();
    CHECK(two.reap().empty());
    const auto copied = two.mine.stats(Queue::data).send.copied;
    PacketBuffer* buffer = nullptr;
    REQUIRE(two.rig.pool.take({&buffer, 1}) == 1);
    const TxPacket packet{.buffer = buffer,
                          .header_bytes = 64,
                          .payload_bytes = 2000,
                          .payload = later.data(),
                          .remote = two.to_theirs};
    REQUIRE(send_now(two.mine, {&packet, 1}) == 1);
    CHECK(two.reap().empty());
    CHECK(two.mine.stats(Queue::data).send.copied == copied);
    CHECK(two.rig.settle(two.theirs).size() == 1);
  }
}

TEST_CASE("verbs NIC: its device goes again and again, also while it is made anew") {
  Two two;
  for (std::uint64_t round = 0; round < 24; ++round) {
    two.send(100 * round, 20);
    two.fabric().remove(kMine, round % 4 != 0 ? Fabric::Removal::told : Fabric::Removal::silent);
    two.fabric().add(device_like("rxe_a0", "fe80::a0"));
    REQUIRE(hears(two.mine, Kind::down));
    // Opening the device fails at another step each time.
    two.fabric().fail_setup(round, EIO);
    two.comes_up();
    CHECK(two.reap().size() == 20);
    two.works();
  }
}

TEST_CASE("verbs NIC: what is refused for long is done more thoroughly") {
  Two two;
  const engine::VerbsAddress before = where(two.mine);
  const std::uint64_t opened = two.fabric().calls(Call::open_device);
  SECTION("resets: other queue pairs are made") {
    two.fabric().fail(Call::modify_qp, EIO, 0, 9);
    two.fabric().raise_of_pair(pair_number(two.mine, Queue::data), IBV_EVENT_QP_FATAL);
    two.returns(0);
    CHECK(two.fabric().calls(Call::open_device) == opened);
  }
  SECTION("queue pairs: the device is opened anew") {
    two.fabric().fail(Call::create_qp, ENOMEM, 0, 9);
    two.fabric().raise_of_completions(pair_number(two.mine, Queue::data), fake::Side::send);
    two.returns(0);
    CHECK(two.fabric().calls(Call::open_device) > opened);
  }
  CHECK(where(two.mine).data_qpn != before.data_qpn);
}

TEST_CASE("verbs NIC: its device is removed, and it is destroyed before that is back") {
  for (const auto removal : {Fabric::Removal::told, Fabric::Removal::silent}) {
    for (const int wait : {0, 30}) {
      Two two;
      two.fabric().hold(true);
      two.send(0, 40);
      two.fabric().remove(kMine, removal);
      if (wait > 0) REQUIRE(hears(two.mine, Kind::down));
      (void)::poll(nullptr, 0, wait);
      two.rig.destroy(two.mine);
      CHECK(two.rig.pool.in_use() == 0);
    }
  }
}

TEST_CASE("verbs NIC: its device returns without memory for all: what it can't read is copied") {
  Two two;
  two.fabric().remove(kMine);
  two.fabric().add(device_like("rxe_a0", "fe80::a0"));
  two.fabric().fail(Call::reg_mr, ENOMEM, 0, 1);  // headers are registered first
  two.returns(0);
  CHECK(two.mine.stats(Queue::data).send.copied > 0);
}

TEST_CASE("verbs NIC: who can't be reached delays nobody, and nothing else") {
  Two two;
  const auto address_of = [&](const std::string& gid) {
    engine::VerbsAddress address = where(two.theirs);
    address.gid = fake::gid_of(gid.c_str());
    two.rig.add_neighbour(gid);
    return to_nic_address(address);
  };
  const auto opens = [&](const proto::NicAddress& address) {
    RemoteHandle handle = proto::kNoRemote;
    return comes_true([&] { return two.mine.open_remote(address, handle) == Status::ok; });
  };
  RemoteHandle handle = proto::kNoRemote;
  // Several addresses whose lookups fail, and whose retries then block until the test lets go.
  const std::vector<std::string> dead{"fe80::f1", "fe80::f2", "fe80::f3", "fe80::f4"};
  std::vector<proto::NicAddress> nowhere;
  std::vector<fake::Gid> gids;
  for (const std::string& gid : dead) {
    nowhere.push_back(address_of(gid));
    gids.push_back(fake::gid_of(gid.c_str()));
  }
  const auto ask_all = [&] {
    for (const auto& address : nowhere) {
      CHECK(two.mine.open_remote(address, handle) == Status::again);
    }
    (void)::poll(nullptr, 0, 1);
  };
  two.fabric().fail(Call::create_ah, ETIMEDOUT, 0, dead.size());
  const std::uint64_t calls = two.fabric().calls(Call::create_ah);
  ask_all();
  while (two.fabric().calls(Call::create_ah) < calls + dead.size()) (void)::poll(nullptr, 0, 1);
  two.fabric().block_handles_to(gids);
  while (two.fabric().handles_blocked() < 2) ask_all();
  for (int round = 0; round < 300; ++round) ask_all();  // all are due by now
  CHECK(two.fabric().handles_blocked() == 2);
  for (const char* const gid : {"fe80::1:1", "fe80::1:2", "fe80::1:3"}) {
    CHECK(opens(address_of(gid)));
  }
  // A repair does not wait for those retries either.
  two.fabric().complete_with(fake::Side::send, IBV_WC_RETRY_EXC_ERR);
  two.send(0, 10);
  two.recovers(10);
  two.fabric().block_handles_to({});
  for (const auto& address : nowhere) CHECK(opens(address));
}

TEST_CASE("verbs NIC: one first address that blocks delays no other, nor who is tried again") {
  Two two;
  engine::VerbsAddress address = where(two.theirs);
  address.gid = fake::gid_of("fe80::f1");
  two.rig.add_neighbour("fe80::f1");
  const auto slow = to_nic_address(address);
  address.gid = fake::gid_of("fe80::f2");
  two.rig.add_neighbour("fe80::f2");
  const auto failing = to_nic_address(address);
  RemoteHandle handle = proto::kNoRemote;
  two.fabric().block_handles_to({fake::gid_of("fe80::f1")});
  CHECK(two.mine.open_remote(slow, handle) == Status::again);
  while (two.fabric().handles_blocked() == 0) (void)::poll(nullptr, 0, 1);
  two.fabric().fail(Call::create_ah, ETIMEDOUT, 0, 3);
  CHECK(comes_true([&] { return two.mine.open_remote(failing, handle) == Status::ok; }));
  CHECK(two.fabric().handles_blocked() == 1);
  two.fabric().block_handles_to({});
}

}  // namespace hawser::test
