// SPDX-License-Identifier: Apache-2.0
// The parts of a NIC's name, for names of every kind and for what only resembles one.
#include <catch2/catch.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "engine/host/nic_list.hpp"
#include "engine/host/nic_spec.hpp"

namespace hawser::engine {
namespace {

struct Parts {
  std::string_view name;
  std::string_view kind;
  std::string_view where;
  std::string_view address;    // of a UDP NIC
  std::string_view interface;  //
  std::string_view device;     // of an RDMA port
};

const std::vector<Parts> kNames{
    {"udp:10.0.0.1", "udp", "10.0.0.1", "10.0.0.1", "", ""},
    {"udp:fd00::7", "udp", "fd00::7", "fd00::7", "", ""},
    {"udp:::1", "udp", "::1", "::1", "", ""},
    {"udp:fe80::1%eth0", "udp", "fe80::1%eth0", "fe80::1", "eth0", ""},
    {"udp:fe80::1%eth0.7", "udp", "fe80::1%eth0.7", "fe80::1", "eth0.7", ""},
    {"verbs:mlx5_0", "verbs", "mlx5_0", "", "", "mlx5_0"},
    {"verbs:mlx5_0:2", "verbs", "mlx5_0:2", "", "", "mlx5_0"},
    {"verbs:mlx5_0@3", "verbs", "mlx5_0@3", "", "", "mlx5_0"},
    {"verbs:mlx5_0:2@3", "verbs", "mlx5_0:2@3", "", "", "mlx5_0"},
    {"memory:test", "memory", "test", "", "", ""},
    {"udp:", "udp", "", "", "", ""},
    {"verbs:", "verbs", "", "", "", ""},
};

TEST_CASE("split_nic_name: names of every kind") {
  for (const Parts& parts : kNames) {
    CAPTURE(parts.name);
    const NicName name = split_nic_name(parts.name);
    CHECK(name.kind == parts.kind);
    CHECK(name.where == parts.where);
    CHECK(is_udp_name(parts.name) == (parts.kind == "udp"));
    CHECK(is_verbs_name(parts.name) == (parts.kind == "verbs"));
    CHECK(udp_place(parts.name).address == parts.address);
    CHECK(udp_place(parts.name).interface == parts.interface);
    CHECK(verbs_device(parts.name) == parts.device);
    CHECK(is_nic_name(parts.name));
  }
}

TEST_CASE("split_nic_name: patterns and other texts have no parts") {
  for (const std::string_view text : {"",
                                      ":",
                                      "udp",
                                      "verbs",
                                      "memory",
                                      "eth0",
                                      "if:eth0",
                                      "if:udp",
                                      "net:10.0.0.0/8",
                                      "net:fd00::/8",
                                      "!docker*",
                                      "!udp:10.0.0.1",
                                      "^verbs:mlx5_0",
                                      "10.0.0.1",
                                      "fd00::7",
                                      "fe80::1%eth0",
                                      "UDP:10.0.0.1",
                                      "udp10.0.0.1",
                                      "udpx:10.0.0.1",
                                      " udp:10.0.0.1"}) {
    CAPTURE(text);
    CHECK(split_nic_name(text).kind.empty());
    CHECK(split_nic_name(text).where.empty());
    CHECK_FALSE(is_udp_name(text));
    CHECK_FALSE(is_verbs_name(text));
    CHECK(udp_place(text).address.empty());
    CHECK(udp_place(text).interface.empty());
    CHECK(verbs_device(text).empty());
    CHECK_FALSE(family_of(text));
    CHECK_FALSE(is_nic_name(text));
  }
}

TEST_CASE("nic_spec: names that are made come apart again") {
  CHECK(udp_name("10.0.0.1") == "udp:10.0.0.1");
  CHECK(verbs_name("mlx5_0:2") == "verbs:mlx5_0:2");
  CHECK(split_nic_name(udp_name("fe80::1%eth0")).where == "fe80::1%eth0");
  CHECK(verbs_device(verbs_name("mlx5_0:2@3")) == "mlx5_0");
}

TEST_CASE("family_of: by the address, whatever the interface is called") {
  CHECK(family_of("udp:10.0.0.1") == Family::v4);
  CHECK(family_of("udp:::1") == Family::v6);
  CHECK(family_of("udp:fe80::1%eth0") == Family::v6);
  CHECK(family_of("udp:10.0.0.1%a:b") == Family::v4);
  CHECK_FALSE(family_of("verbs:mlx5_0:1"));
  CHECK_FALSE(family_of("memory:x:y"));
  CHECK(to_string(Family::v4) == "IPv4");
  CHECK(to_string(Family::v6) == "IPv6");
}

TEST_CASE("canonical_name: names of every kind") {
  CHECK(canonical_name("udp:FD00:0::7") == "udp:fd00::7");
  CHECK(canonical_name("udp:FE80::1%eth0") == "udp:fe80::1%eth0");
  CHECK(canonical_name("udp:10.1") == "udp:10.0.0.1");
  CHECK(canonical_name("verbs:mlx5_0:1@3") == "verbs:mlx5_0");
  CHECK(canonical_name("verbs:mlx5_0:2@3") == "verbs:mlx5_0:2");
  CHECK(canonical_name("verbs:mlx5_0:x") == "verbs:mlx5_0:x");
  CHECK(canonical_name("memory:test") == "memory:test");
  CHECK(canonical_name("if:eth0") == "if:eth0");
}

}  // namespace
}  // namespace hawser::engine
