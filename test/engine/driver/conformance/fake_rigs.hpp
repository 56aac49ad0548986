// SPDX-License-Identifier: Apache-2.0
// The verbs driver over a double of libibverbs (test/support/fake_verbs/), on every host.
#pragma once

#include <cstdlib>
#include <string>

#include "test/engine/driver/conformance/verbs_config.hpp"
#include "test/support/fake_verbs/fabric.hpp"

namespace hawser::test {

// The kinds of ports that a fabric can have.
struct RoceV6 {
  static constexpr bool kInfiniband = false;
  static constexpr std::array<const char*, 4> kAddresses{"fe80::a0", "fe80::b0", "fe80::a1",
                                                         "fe80::b1"};
};
struct RoceV4 {
  static constexpr bool kInfiniband = false;
  static constexpr std::array<const char*, 4> kAddresses{"10.0.0.1", "10.0.0.2", "10.0.1.1",
                                                         "10.0.1.2"};
};
struct Infiniband {
  static constexpr bool kInfiniband = true;
  static constexpr std::array<const char*, 4> kAddresses{"fe80::1", "fe80::2", "fe80::3",
                                                         "fe80::4"};
};

// Whether the devices offer ibv_wr_* and ibv_start_poll. All tests run with them and without.
inline bool devices_are_extended() { return std::getenv("HAWSER_FAKE_EXTENDED") != nullptr; }

// Two cables with a device at each end: rxe_a0 to rxe_b0, rxe_a1 to rxe_b1. Any misuse of a device
// fails the test when it ends.
class Cables {
 public:
  static constexpr std::array<const char*, 4> kNames{"rxe_a0", "rxe_b0", "rxe_a1", "rxe_b1"};

  template <class Link>
  Cables(Link, ibv_mtu mtu) {
    for (std::size_t i = 0; i < kNames.size(); ++i) {
      const ibv_gid_type type = Link::kInfiniband ? IBV_GID_TYPE_IB : IBV_GID_TYPE_ROCE_V2;
      fake::PortSettings port;
      port.infiniband = Link::kInfiniband;
      port.lid = static_cast<std::uint16_t>(Link::kInfiniband ? 10 + i : 0);
      port.mtu = static_cast<std::uint8_t>(mtu);
      port.gids.push_back({0, type, fake::gid_of(Link::kAddresses[i])});
      fake::DeviceSettings device;
      device.name = kNames[i];
      device.extended = devices_are_extended();
      device.ports.push_back(port);
      fabric.add(device);
    }
  }
  ~Cables() {
    for (const std::string& violation : fabric.end()) {
      UNSCOPED_INFO(violation);
      CHECK(violation.empty());
    }
  }
  Cables(const Cables&) = delete;
  Cables& operator=(const Cables&) = delete;

  fake::Fabric fabric;
};

// Every second NIC is at the other end of the cable. The base owns the fabric, so that the fabric
// outlives the NICs.
template <class Link, int kMtu, Registered kRegistered>
class FakeRig : public Cables, public RigBase {
 public:
  FakeRig() : Cables(Link{}, static_cast<ibv_mtu>(kMtu)) {}

  void mark(bool marked) { fabric.mark(marked); }
  void set_link(const std::string& interface, const std::string& state) {
    const bool first = interface[0] == 'a';
    const std::string other = (first ? "b" : "a") + interface.substr(1);
    for (const std::string& end : {interface, other}) {
      fabric.set_port("rxe_" + end, 1, state == "up" ? IBV_PORT_ACTIVE : IBV_PORT_DOWN);
    }
  }
  // Sets the InfiniBand MTU that fits an interface MTU of so many bytes.
  void set_mtu(const std::string& interface, const std::string& bytes) {
    constexpr int kHeaders = 70;
    int code = IBV_MTU_256;
    while (code < IBV_MTU_4096 && (256 << code) + kHeaders <= std::stoi(bytes)) ++code;
    fabric.change("rxe_" + interface, [code](fake::DeviceSettings& settings) {
      settings.ports[0].mtu = static_cast<std::uint8_t>(code);
    });
  }
  void remove_device(const std::string& interface) {
    fabric.change("rxe_" + interface, [&](fake::DeviceSettings& device) { removed_ = device; });
    fabric.remove("rxe_" + interface, fake::Fabric::Removal::silent);
  }
  [[nodiscard]] bool is_removed(const std::string&) const { return fabric.removed_in_use() == 0; }
  void add_device(const std::string&) { fabric.add(removed_); }
  void add_neighbour(const std::string& address) {
    fabric.change("rxe_b0", [&](fake::DeviceSettings& settings) {
      auto& gids = settings.ports[0].gids;
      gids.push_back({static_cast<std::uint32_t>(gids.size()), IBV_GID_TYPE_ROCE_V2,
                      fake::gid_of(address.c_str())});
    });
  }

 protected:
  [[nodiscard]] virtual engine::VerbsNicConfig config_of(const std::string& device) {
    return verbs_config(device);
  }

 private:
  std::unique_ptr<Nic> make_nic() override {
    return make_verbs_nic(config_of(kNames[made_++ % 2]), kRegistered, pool);
  }
  std::size_t made_ = 0;
  fake::DeviceSettings removed_;
};

using PooledVerbsRig = FakeRig<RoceV6, IBV_MTU_4096, Registered::headers>;
using BareVerbsRig = FakeRig<RoceV6, IBV_MTU_1024, Registered::nothing>;
using PooledV4Rig = FakeRig<RoceV4, IBV_MTU_1024, Registered::headers>;
using BareV4Rig = FakeRig<RoceV4, IBV_MTU_4096, Registered::nothing>;
using PooledInfinibandRig = FakeRig<Infiniband, IBV_MTU_4096, Registered::headers>;
using BareInfinibandRig = FakeRig<Infiniband, IBV_MTU_1024, Registered::nothing>;

#define HAWSER_RIGS \
  PooledVerbsRig, BareVerbsRig, PooledV4Rig, BareV4Rig, PooledInfinibandRig, BareInfinibandRig

}  // namespace hawser::test
