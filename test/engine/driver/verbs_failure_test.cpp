// SPDX-License-Identifier: Apache-2.0
// The verbs NIC when ports fail and remotes are unreachable, over RDMA devices whose cables the
// test pulls, and over their double.
#include <arpa/inet.h>
#include <poll.h>

#include <string>

#include "engine/driver/verbs/verbs_nic.hpp"
#include "hawser/engine.hpp"
#include "test/engine/driver/conformance/rigs.hpp"
#include "test/engine/driver/verbs_exchange.hpp"

namespace hawser::test {
namespace {

using engine::VerbsNic;
using Kind = proto::NicEvent::Kind;

// The reason why no NIC can be made on the device; empty if one can.
std::string refusal_of(const std::string& device) {
  SimplePool pool(4);
  try {
    const VerbsNic nic(verbs_config(device), pool);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("verbs NIC: its port goes down and up, and nothing but packets is lost", "[soft]") {
  PooledVerbsRig rig;
  Nic& mine = rig.make();    // rxe_a0
  Nic& theirs = rig.make();  // rxe_b0
  const RemoteHandle to_theirs = open(mine, theirs);
  const RemoteHandle to_mine = open(theirs, mine);
  CHECK(exchange(rig, mine, to_theirs, theirs, 10) == 10);
  const proto::NicAddress address = mine.address();
  for (int round = 0; round < 2; ++round) {
    rig.set_link("a0", "down");
    REQUIRE(hears(mine, Kind::down));
    REQUIRE(hears(theirs, Kind::down));  // it lost its carrier, too
    CHECK(exchange(rig, mine, to_theirs, theirs, 20) == 0);
    rig.set_link("a0", "up");
    REQUIRE(hears(mine, Kind::up));
    REQUIRE(hears(theirs, Kind::up));
    for (const Queue queue : {Queue::data, Queue::control}) {
      CHECK(exchange(rig, mine, to_theirs, theirs, 40, queue) == 40);
      CHECK(exchange(rig, theirs, to_mine, mine, 40, queue) == 40);
    }
  }
  CHECK(mine.address() == address);
  // The NIC kept these sends from the device, whose queue pair would have failed.
  CHECK(dynamic_cast<const VerbsNic&>(mine).stats(Queue::data).send.lost == 40);
}

TEST_CASE("verbs NIC: its device is deleted and made again under its name", "[soft]") {
  PooledVerbsRig rig;
  Nic& mine = rig.make();    // rxe_a0
  Nic& theirs = rig.make();  // rxe_b0
  const RemoteHandle to_theirs = open(mine, theirs);
  CHECK(exchange(rig, mine, to_theirs, theirs, 10) == 10);
  const proto::NicAddress before = mine.address();
  std::array<proto::NicEvent, 1> events;
  for (int round = 0; round < 2; ++round) {
    rig.remove_device("a0");
    REQUIRE(hears(mine, Kind::down));
    REQUIRE(comes_true([&] {
      CHECK(mine.events(events) == 0);
      return rig.is_removed("a0");
    }));
    CHECK(exchange(rig, mine, to_theirs, theirs, 20) == 0);
    rig.add_device("a0");
    REQUIRE(hears(mine, Kind::up));
    CHECK(mine.address() != before);
    // The other end may have lost its carrier meanwhile, and the NIC makes address handles anew.
    bool told_up = true;
    RemoteHandle same = proto::kNoRemote;
    (void)comes_true([&] {
      if (theirs.events(events) == 1) told_up = events[0].kind == Kind::up;
      if (same == proto::kNoRemote) (void)mine.open_remote(theirs.address(), same);
      return told_up && same != proto::kNoRemote;
    });
    CHECK(same == to_theirs);
    mine.close_remote(same);
    const RemoteHandle to_mine = open(theirs, mine);
    for (const Queue queue : {Queue::data, Queue::control}) {
      CHECK(exchange(rig, mine, to_theirs, theirs, 40, queue) == 40);
      CHECK(exchange(rig, theirs, to_mine, mine, 40, queue) == 40);
    }
    theirs.close_remote(to_mine);
  }
}

TEST_CASE("verbs NIC: a NIC that goes while its port is down gives its buffers back", "[soft]") {
  PooledVerbsRig rig;
  Nic& mine = rig.make();
  Nic& theirs = rig.make();
  const RemoteHandle to = open(mine, theirs);
  rig.set_link("a0", "down");
  Burst burst(rig.pool);
  for (std::uint64_t id = 0; id < 20; ++id) burst.add({.id = id, .remote = to});
  CHECK(burst.send(mine) == 20);
  rig.destroy(mine);
  CHECK(rig.pool.in_use() == 0);
  rig.set_link("a0", "up");
}

TEST_CASE("verbs NIC: a port that is down at the start is said in a sentence", "[soft]") {
  PooledVerbsRig rig;
  rig.set_link("a0", "down");
  const std::string words = refusal_of("rxe_a0");
  rig.set_link("a0", "up");
  CHECK_THAT(words, Catch::Contains("verbs:rxe_a0: the port is") && Catch::Contains("ip link"));
}

TEST_CASE("verbs NIC: an MTU that is too small is said in a sentence", "[soft]") {
  PooledVerbsRig rig;
  // Use the cable that no other test here uses.
  rig.set_mtu("a1", "1280");
  const std::string before = refusal_of("rxe_a1");
  rig.set_mtu("a1", "900");
  const std::string words = refusal_of("rxe_a1");
  rig.set_mtu("a1", "4200");
  CHECK(before == "");
  CHECK_THAT(words, Catch::Contains("verbs:rxe_a1: its MTU of 512 bytes is below the minimum"));
}

TEST_CASE("verbs NIC: somebody whom no route leads to is asked for again and again, others go on",
          "[roce]") {
  PooledVerbsRig rig;
  Nic& mine = rig.make();
  Nic& theirs = rig.make();
  proto::NicAddress nowhere = theirs.address();
  // 2001:db8:: is reserved for documentation.
  const int prefix[] = {0x20, 0x01, 0x0d, 0xb8};
  for (std::size_t i = 0; i < 4; ++i) {
    nowhere.bytes[engine::VerbsAddressLayout::kGid + i] = static_cast<std::byte>(prefix[i]);
  }
  RemoteHandle handle = proto::kNoRemote;
  for (int round = 0; round < 60; ++round) {
    CHECK(mine.open_remote(nowhere, handle) == Status::again);
    (void)::poll(nullptr, 0, 10);
  }
  CHECK(handle == proto::kNoRemote);
  CHECK(exchange(rig, mine, open(mine, theirs), theirs, 5) == 5);
}

TEST_CASE("verbs NIC: more destinations than there is room for, one after another", "[soft]") {
  PooledVerbsRig rig;
  Nic& mine = rig.make();
  Nic& theirs = rig.make();
  const RemoteHandle to = open(mine, theirs);
  const auto open_other = [&](unsigned number) {
    proto::NicAddress other = theirs.address();
    engine::VerbsAddress address;
    REQUIRE(from_nic_address(other, address));
    const std::string text = "fe80::" + std::to_string(1000 + number);
    REQUIRE(::inet_pton(AF_INET6, text.c_str(), address.gid.data()) == 1);
    other = to_nic_address(address);
    rig.add_neighbour(text);
    RemoteHandle handle = proto::kNoRemote;
    Status status = Status::again;
    (void)comes_true([&] {
      status = mine.open_remote(other, handle);
      return status != Status::again;
    });
    REQUIRE(status == Status::ok);
    return handle;
  };
  for (unsigned number = 0; number < 3 * kRigRemotes; ++number) {
    const RemoteHandle handle = open_other(number);
    CHECK(handle != to);
    mine.close_remote(handle);
  }
  CHECK(exchange(rig, mine, to, theirs, 5) == 5);
}

}  // namespace hawser::test
