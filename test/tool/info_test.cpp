#include "tool/info/info.hpp"

#include <catch2/catch.hpp>

namespace hawser::tool {
namespace {

using Catch::Contains;
using Ports = std::vector<engine::VerbsPortInfo>;

engine::VerbsPortInfo port(bool usable, bool roce) {
  return {.name = "mlx5_0", .usable = usable, .roce = roce};
}

// Where the build has verbs at all: the source ports of RoCE are the driver's.
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
               Contains("none, every RDMA port is refused: a traffic class of " +
                        std::to_string(given) + " has bits of ECN set") &&
                   !Contains("DSCP " + std::to_string(given >> 2) + ","));
  }
}

TEST_CASE("info: the way from each UDP NIC to an address") {
  const std::string text = ways_text("127.0.0.1");
  CHECK_THAT(text, Contains("Ways to 127.0.0.1 (`ip route get 127.0.0.1`"));
  CHECK_THAT(text, Contains("  udp:127.0.0.1 ") && Contains(" MTU 65535 of the way, 65536 of the "
                                                            "device: datagrams of 65507\n"));
  CHECK_THAT(text, !Contains("udp:::1"));
  for (const char* const wrong : {"somewhere", "0.0.0.0", "10.0.0.1:80"}) {
    CHECK_THROWS_WITH(ways_text(wrong),
                      Contains("--to " + std::string(wrong)) && Contains("address of a host"));
  }
}

}  // namespace
}  // namespace hawser::tool
