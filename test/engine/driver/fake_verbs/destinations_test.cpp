// SPDX-License-Identifier: Apache-2.0
// The verbs NIC's address handles when there is hardly room for them.
#include "test/engine/driver/fake_verbs/two_nics.hpp"

namespace hawser::test {
namespace {

class SmallRig : public PooledVerbsRig {
 private:
  [[nodiscard]] engine::VerbsNicConfig config_of(const std::string& device) override {
    engine::VerbsNicConfig config = PooledVerbsRig::config_of(device);
    config.max_remotes = 2;
    return config;
  }
};
using Two = TwoNics<SmallRig>;

// A neighbour with this GID at the other end of the cable.
proto::NicAddress neighbour(Two& two, const std::string& gid, std::uint32_t pair = 17) {
  engine::VerbsAddress address;
  REQUIRE(from_nic_address(two.theirs.address(), address));
  address.gid = fake::gid_of(gid.c_str());
  address.data_qpn = pair;
  two.rig.add_neighbour(gid);
  return to_nic_address(address);
}

RemoteHandle reach(Two& two, const proto::NicAddress& address) {
  RemoteHandle handle = proto::kNoRemote;
  while (two.mine.open_remote(address, handle) == Status::again) (void)::poll(nullptr, 0, 1);
  REQUIRE(handle != proto::kNoRemote);
  return handle;
}

}  // namespace

// If the NIC destroyed a handle in use, the double would report it at the end.
TEST_CASE("verbs NIC: what asks for a place takes no handle from sends in flight") {
  Two two;
  two.mine.close_remote(two.to_theirs);
  const proto::NicAddress first = neighbour(two, "fe80::b7");
  const proto::NicAddress second = neighbour(two, "fe80::b8");
  const RemoteHandle to_first = reach(two, first);
  const RemoteHandle to_second = reach(two, second);
  two.fabric().hold(true);
  Burst burst(two.rig.pool);
  for (std::uint64_t id = 0; id < 5; ++id) {
    burst.add({.id = id, .payload_bytes = 500, .remote = to_second});
  }
  REQUIRE(burst.send(two.mine) == 5);
  two.mine.close_remote(to_second);
  // The table's two places are taken again, by two NICs at one port. `second` has address handles,
  // but no place.
  const RemoteHandle beside_first = reach(two, neighbour(two, "fe80::b7", 18));
  RemoteHandle none = proto::kNoRemote;
  CHECK(two.mine.open_remote(second, none) == Status::again);
  two.mine.close_remote(beside_first);
  const proto::NicAddress third = neighbour(two, "fe80::b9");
  for (int round = 0; round < 20; ++round) {
    CHECK(two.mine.open_remote(third, none) == Status::again);
    (void)::poll(nullptr, 0, 1);
  }
  two.fabric().hold(false);
  CHECK(two.rig.reap_rest(two.mine).size() == 5);
  // Now no send uses these handles.
  const RemoteHandle to_third = reach(two, third);
  two.mine.close_remote(to_third);
  two.mine.close_remote(to_first);
}

}  // namespace hawser::test
