// SPDX-License-Identifier: Apache-2.0
#include "tool/run/own_address.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace hawser::tool {
namespace {

HostNic nic(const std::string& name, bool up = true, bool loopback = false,
            const std::string& device = "eth0") {
  return {.name = name, .device = device, .up = up, .loopback = loopback};
}

using Addresses = std::vector<std::string>;

TEST_CASE("own_addresses: RDMA ports, loopback and what is down are no address") {
  const std::vector<HostNic> nics{nic("verbs:mlx5_0"), nic("udp:127.0.0.1", true, true, "lo"),
                                  nic("udp:10.0.0.7", false, false, "eth1"),
                                  nic("udp:10.0.1.7", true, false, "eth2"),
                                  nic("udp:fd00::7", true, false, "eth3")};
  CHECK(own_addresses(nics) == Addresses{"10.0.1.7", "fd00::7"});
  CHECK(own_addresses(std::vector{nic("verbs:mlx5_0"), nic("verbs:mlx5_1")}).empty());
  CHECK(own_addresses({}).empty());
}

TEST_CASE("own_addresses: bridges of containers come last, and second addresses of a device") {
  const std::vector<HostNic> nics{nic("udp:172.17.0.1", true, false, "docker0"),
                                  nic("udp:10.0.0.8"), nic("udp:10.0.0.9"),
                                  nic("udp:10.1.0.8", true, false, "eth1")};
  CHECK(own_addresses(nics) == Addresses{"10.0.0.8", "10.1.0.8", "172.17.0.1", "10.0.0.9"});
}

TEST_CASE("own_addresses: an IPv6 address that is not preferred is passed over") {
  HostNic deprecated = nic("udp:fd00::7");
  deprecated.address_state = AddressState::deprecated;
  CHECK(own_addresses(std::vector{deprecated, nic("udp:fd01::7")}) == Addresses{"fd01::7"});
}

}  // namespace
}  // namespace hawser::tool
