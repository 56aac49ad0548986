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

TEST_CASE("own_address: RDMA ports beside it are no address") {
  const std::vector<HostNic> nics{nic("verbs:mlx5_0"), nic("udp:127.0.0.1", true, true),
                                  nic("udp:10.0.0.7", false), nic("udp:10.0.1.7"),
                                  nic("udp:10.0.2.7")};
  CHECK(own_address(nics) == "10.0.1.7:0");
}

TEST_CASE("own_address: an IPv6 address that is not preferred is passed over") {
  HostNic deprecated = nic("udp:fd00::7");
  deprecated.address_state = AddressState::deprecated;
  CHECK(own_address(std::vector{deprecated, nic("udp:fd01::7")}) == "[fd01::7]:0");
}

TEST_CASE("own_address: IPv6 has brackets, and a host with RDMA ports alone has none") {
  CHECK(own_address(std::vector{nic("udp:fd00::7")}) == "[fd00::7]:0");
  CHECK(own_address(std::vector{nic("verbs:mlx5_0"), nic("verbs:mlx5_1")}) == std::nullopt);
  CHECK(own_address({}) == std::nullopt);
}

}  // namespace
}  // namespace hawser::tool
