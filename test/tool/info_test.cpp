// SPDX-License-Identifier: Apache-2.0
#include "tool/info/info.hpp"

#include <array>
#include <catch2/catch.hpp>

namespace hawser::tool {
namespace {

using Catch::Contains;
using Ports = std::vector<engine::VerbsPortInfo>;

engine::VerbsPortInfo port(bool usable, bool roce) {
  return {.name = "mlx5_0", .usable = usable, .roce = roce};
}

// This needs a build with verbs, since the verbs driver chooses the source ports of RoCE.
TEST_CASE("info: the traffic class of RoCE ports in the words of switches") {
  if (!engine::has_verbs()) return;
  Tunables tunables;
  tunables.verbs_service_level = 3;
  for (const std::uint64_t given : {104, 106}) {
    tunables.verbs_traffic_class = given;
    const std::string text = verbs_packets_text(tunables, Ports{port(true, true)});
    CHECK_THAT(text, Contains("traffic class of RoCE ") &&
                         Contains(" " + std::to_string(given) +
                                  ": DSCP 26, ECN-capable (a TOS byte of 0x6a); priority 3\n") &&
                         Contains("UDP source ports of RoCE ") && !Contains("InfiniBand"));
  }
  tunables.verbs_traffic_class = 0;
  CHECK_THAT(verbs_packets_text(tunables, Ports{port(true, true)}),
             Contains(" 0: DSCP 0, ECN-capable (a TOS byte of 0x02); priority 3\n"));
}

TEST_CASE("info: what is shown of packets is what the usable ports are") {
  Tunables tunables;
  tunables.verbs_traffic_class = 104;
  tunables.verbs_service_level = 5;
  const std::string infiniband =
      verbs_packets_text(tunables, Ports{port(true, false), port(false, true)});
  CHECK_THAT(infiniband, Contains("service level of InfiniBand ") &&
                             Contains(" 5; packets have no traffic class there\n") &&
                             !Contains("RoCE"));
  CHECK(verbs_packets_text(tunables, Ports{port(false, false)}).empty());
}

TEST_CASE("info: a traffic class that every verbs NIC refuses is shown as refused") {
  Tunables tunables;
  for (const std::uint64_t given : {105, 107}) {
    tunables.verbs_traffic_class = given;
    CHECK_THAT(verbs_packets_text(tunables, Ports{port(true, true)}),
               Contains("none, as every RDMA port is refused: a traffic class of " +
                        std::to_string(given) + " sets the ECN bits") &&
                   !Contains("DSCP " + std::to_string(given >> 2) + ","));
  }
}

TEST_CASE("info: the way from each UDP NIC to an address") {
  const std::string text = ways_text("127.0.0.1");
  CHECK_THAT(text, Contains("Routes to 127.0.0.1 (`ip route get 127.0.0.1`"));
  CHECK_THAT(text,
             Contains("  udp:127.0.0.1 ") &&
                 Contains(" MTU 65535 of the route, 65536 of the device: datagrams of 65507\n"));
  CHECK_THAT(text, !Contains("udp:::1"));
  for (const char* const wrong : {"somewhere", "0.0.0.0", "10.0.0.1:80"}) {
    CHECK_THROWS_WITH(ways_text(wrong),
                      Contains("--to " + std::string(wrong)) && Contains("address of a host"));
  }
}

TEST_CASE("info: a host that has loopback alone is told that no other reaches it") {
  const HostNic loopback{.name = "udp:127.0.0.1", .device = "lo", .up = true, .loopback = true};
  const HostNic six{.name = "udp:::1", .device = "lo", .up = true, .loopback = true};
  const HostNic card{.name = "udp:10.0.0.7", .device = "eth0", .up = true};
  const HostNic port{.name = "verbs:mlx5_0", .device = "mlx5_0", .up = true};
  const auto warns = Contains("-> no other host reaches these: give a device an address");
  const auto more = Contains("any other address of 127.0.0.0/8");
  CHECK_THAT(nics_text({}), Contains("\n  none\n  -> no other host reaches this one: ") && !more);
  CHECK_THAT(nics_text(std::array{loopback, six}), warns && more && Contains("  udp:::1 "));
  CHECK_THAT(nics_text(std::array{six}), warns && !more);
  const HostNic down{.name = "udp:127.0.0.1", .device = "lo", .loopback = true};
  CHECK_THAT(nics_text(std::array{down}), warns && !more);
  CHECK_THAT(nics_text(std::array{loopback, card}), !warns && Contains("  udp:10.0.0.7 "));
  CHECK_THAT(nics_text(std::array{port, loopback}), warns && !Contains("mlx5_0"));
}

TEST_CASE("info: a named NIC may have an address that no interface lists") {
  CHECK_THAT(choice_text("udp:127.0.0.77", {}),
             Contains("  udp:127.0.0.77 ") && Contains(" + named; this host has the address\n") &&
                 !Contains("is not a NIC of this host"));
  CHECK_THAT(choice_text("udp:203.0.113.77", {}),  // TEST-NET-3
             !Contains(" + named") && Contains("is not a NIC of this host"));
}

TEST_CASE("info: why each NIC is chosen, or is not") {
  const std::vector<HostNic> host{
      {.name = "udp:10.0.0.7", .device = "eth0", .up = true},
      {.name = "udp:fd08::1", .device = "eth1", .address_state = AddressState::tentative},
      {.name = "udp:172.17.0.1", .device = "docker0", .up = true}};
  CHECK_THAT(choice_text("", host),
             Contains("Choice of NICs when none are named\n") &&
                 Contains("eth0         + chosen\n") &&
                 Contains("eth1         - its address is tentative") &&
                 Contains("docker0      - a bridge of this host's containers") &&
                 Contains("  NIC udp:fd08::1 (eth1) is left out: "));
  CHECK_THAT(choice_text("if:docker0,udp:10.9.9.9", host),
             Contains("Choice of NICs by \"if:docker0,udp:10.9.9.9\"\n") &&
                 Contains("docker0      + chosen by if:docker0\n") &&
                 Contains("eth0         - no item matches it\n") &&
                 Contains("  udp:10.9.9.9 is named, but is not a NIC of this host\n"));
  CHECK_THAT(choice_text("!*", host),
             Contains("eth0         - left out by !*\n") && Contains("  nothing is chosen\n"));
  CHECK_THAT(choice_text("if:", host), Contains("  NIC \"if:\" lacks the interface's name"));
}

}  // namespace
}  // namespace hawser::tool
