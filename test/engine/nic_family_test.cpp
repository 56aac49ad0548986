// SPDX-License-Identifier: Apache-2.0
// The address family that the NICs of a job share, among hosts that the test makes up.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/host/nic_family.hpp"

namespace hawser::engine {
namespace {

using Catch::Contains;
using Hosts = std::vector<FamilyOffer>;
using Names = std::vector<std::string>;
using Nics = std::vector<HostNic>;

constexpr std::size_t kAll = 16;

HostNic udp(const std::string& address, const std::string& device) {
  return {.name = "udp:" + address, .device = device, .up = true, .loopback = device == "lo"};
}
HostNic port(const std::string& name) {
  return {.name = "verbs:" + name, .device = name, .up = true};
}

Nics dual() { return {udp("10.0.0.7", "eth0"), udp("fd00::7", "eth0")}; }
Nics only_v4() { return {udp("10.0.0.8", "eth0")}; }
Nics only_v6() { return {udp("fd00::9", "eth0")}; }

FamilyOffer offer(const Nics& host, std::string_view list = "", std::string_view name = "host") {
  return offer_of(choose_devices(list, host).devices, name);
}

FamilyChoice kept(const Nics& host, Family family, std::string_view list = "",
                  std::size_t most = kAll) {
  return keep_family(choose_devices(list, host).devices, family, most);
}

std::string error_of(const Hosts& hosts) {
  try {
    (void)shared_family(hosts);
  } catch (const NoSharedFamily& error) {
    return error.what();
  }
  return "no error";
}

TEST_CASE("nic_family: a dual-stack device is one NIC with two families") {
  for (const char* const list : {"", "if:eth0", "eth*", "udp", "!docker*", "net:10.0.0.0/8,udp",
                                 "net:fd00::/8,net:10.0.0.0/8"}) {
    CAPTURE(list);
    const DeviceChoice chosen = choose_devices(list, dual());
    REQUIRE(chosen.devices.size() == 1);
    CHECK(chosen.choice.nics == Names{chosen.devices[0].name});
    CHECK(chosen.devices[0].v4 == "udp:10.0.0.7");
    CHECK(chosen.devices[0].v6 == "udp:fd00::7");
    CHECK_FALSE(chosen.devices[0].is_named);
  }
}

TEST_CASE("nic_family: an address that the list does not allow is no family of the device") {
  CHECK_FALSE(offer(dual(), "net:10.0.0.0/8").v6);
  CHECK_FALSE(offer(dual(), "!net:10.0.0.0/8").v4);
  CHECK(offer(dual(), "!net:10.0.0.0/8").v6);
  Nics tentative = dual();
  tentative[1].address_state = AddressState::tentative;
  tentative[1].up = false;
  CHECK_FALSE(offer(tentative).v6);
  // Containers' bridges are no choice beside others, so their family is none of this host.
  const Nics bridged{udp("fd00::7", "eth0"), udp("172.17.0.1", "docker0")};
  CHECK_FALSE(offer(bridged).v4);
}

TEST_CASE("nic_family: all take the first family that every host has") {
  CHECK(shared_family(Hosts{offer(dual()), offer(dual())}) == Family::v4);
  CHECK(shared_family(Hosts{offer(dual()), offer(only_v4())}) == Family::v4);
  CHECK(shared_family(Hosts{offer(dual()), offer(only_v6())}) == Family::v6);
  CHECK(shared_family(Hosts{offer(only_v6()), offer(dual()), offer(dual())}) == Family::v6);
  CHECK(kept(dual(), Family::v6).nics == Names{"udp:fd00::7"});
  CHECK(kept(dual(), Family::v4).nics == Names{"udp:10.0.0.7"});
  CHECK(kept(dual(), Family::v6).notes.empty());
}

TEST_CASE("nic_family: one that uses a pattern goes by those that use names") {
  const FamilyOffer named = offer(dual(), "udp:fd00::7");
  CHECK_FALSE(named.may_choose);
  CHECK(shared_family(Hosts{offer(dual()), named}) == Family::v6);
  CHECK(kept(dual(), Family::v4, "udp:fd00::7").nics == Names{"udp:fd00::7"});
  // The user who names all NICs is right.
  CHECK_FALSE(shared_family(Hosts{offer(dual(), "udp:10.0.0.7"), named}));
  // The second item would choose another address of the named NIC's device.
  const DeviceChoice both = choose_devices("udp:fd00::7,udp", dual());
  REQUIRE(both.devices.size() == 1);
  CHECK(both.devices[0].v4.empty());
}

TEST_CASE("nic_family: devices without the family are left out with a line") {
  const Nics host{udp("10.0.0.7", "eth0"), udp("fd00::7", "eth0"), udp("10.1.0.7", "eth1"),
                  udp("fd02::7", "eth2")};
  const FamilyChoice choice = kept(host, Family::v6);
  CHECK(choice.nics == Names{"udp:fd00::7", "udp:fd02::7"});
  REQUIRE(choice.notes.size() == 1);
  CHECK(choice.notes[0] ==
        "NIC udp:10.1.0.7 (eth1) is left out: it has no IPv6 address, which is the family that all "
        "ranks have");
}

TEST_CASE("nic_family: as many NICs as asked for, after those without the family are gone") {
  const Nics host{udp("fd00::7", "eth0"), udp("10.1.0.7", "eth1"), udp("10.2.0.7", "eth2"),
                  udp("10.3.0.7", "eth3")};
  CHECK(kept(host, Family::v4, "udp", 2).nics == Names{"udp:10.1.0.7", "udp:10.2.0.7"});
}

TEST_CASE("nic_family: RDMA ports have no family, and stay") {
  const Nics rdma{port("mlx5_0"), port("mlx5_1")};
  const FamilyOffer ports = offer(rdma);
  CHECK_FALSE(ports.may_choose);
  CHECK(ports.has_others);
  CHECK_FALSE(shared_family(Hosts{ports, ports}));
  CHECK(shared_family(Hosts{ports, offer(only_v6())}) == Family::v6);
  Nics first{port("mlx5_0"), udp("10.0.0.7", "eth0")};
  Nics second{port("mlx5_0"), udp("fd00::7", "eth0")};
  CHECK(kept(first, Family::v6, "verbs,udp").nics == Names{"verbs:mlx5_0"});
  CHECK_FALSE(shared_family(Hosts{offer(first, "verbs,udp"), offer(second, "verbs,udp")}));
}

TEST_CASE("nic_family: no family in common is an error that says which host has which") {
  CHECK(error_of({offer(only_v4(), "", "alpha"), offer(only_v6(), "", "beta"),
                  offer(dual(), "", "gamma"), offer(only_v4(), "", "alpha")}) ==
        "The ranks' NICs have no address family in common: only IPv4 at rank 0 (alpha), rank 3 "
        "(alpha); only IPv6 at rank 1 (beta); IPv4 and IPv6 at rank 2 (gamma); give every host an "
        "address of one family, or name other NICs");
  Hosts many(7, offer(only_v4(), "", "alpha"));
  many.push_back(offer(only_v6(), "", "beta"));
  CHECK_THAT(error_of(many), Contains("rank 3 (alpha) and 3 more; only IPv6 at rank 7 (beta)"));
}

TEST_CASE("nic_family: an offer crosses the rendezvous, and other bytes do not pass for one") {
  for (unsigned flags = 0; flags < 16; ++flags) {
    const FamilyOffer sent{(flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0, (flags & 8) != 0,
                           "alpha"};
    const FamilyOffer got = decode_offer(encode(sent));
    CHECK(got.v4 == sent.v4);
    CHECK(got.v6 == sent.v6);
    CHECK(got.may_choose == sent.may_choose);
    CHECK(got.has_others == sent.has_others);
    CHECK(got.host == "alpha");
  }
  CHECK_THROWS_AS(decode_offer({}), Error);
  CHECK_THROWS_AS(decode_offer(std::vector<std::byte>(24)), Error);
  CHECK_THROWS_AS(decode_offer(std::vector<std::byte>(8)), Error);
}

}  // namespace
}  // namespace hawser::engine
