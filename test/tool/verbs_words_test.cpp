// SPDX-License-Identifier: Apache-2.0
#include "tool/run/verbs_words.hpp"

#include <catch2/catch.hpp>

namespace hawser::tool {
namespace {

using engine::VerbsPortInfo;
using Ports = std::vector<VerbsPortInfo>;
using Notes = std::vector<std::string>;

VerbsPortInfo usable(const std::string& name, std::uint32_t pkey_violations = 0) {
  return {name, "up, MTU 4096", true, pkey_violations};
}
VerbsPortInfo broken(const std::string& name) {
  return {name, "verbs:" + name + ": the port is down; bring its link up", false};
}

TEST_CASE("verbs words: --nic verbs is every port that can be used, up to the most") {
  const Ports ports{usable("mlx5_0"), broken("mlx5_1"), usable("mlx5_2:2"), usable("mlx5_3")};
  const VerbsChoice all = choose_verbs(true, ports, 16);
  CHECK(all.nics == std::vector<std::string>{"verbs:mlx5_0", "verbs:mlx5_2:2", "verbs:mlx5_3"});
}

TEST_CASE("verbs words: --nic verbs says which ports it leaves out, and why") {
  const Ports ports{usable("mlx5_0"), broken("mlx5_1"), usable("mlx5_2:2"),
                    broken("mlx5_3"), usable("mlx5_4"), usable("mlx5_5")};
  const Notes down{
      "--nic verbs leaves out verbs:mlx5_1: the port is down; bring its link up",
      "--nic verbs leaves out verbs:mlx5_3: the port is down; bring its link up",
  };
  CHECK(choose_verbs(true, ports, 4).notes == down);
  const VerbsChoice two = choose_verbs(true, ports, 2);
  CHECK(two.nics == Notes{"verbs:mlx5_0", "verbs:mlx5_2:2"});
  CHECK(two.notes ==
        Notes{down[0], down[1],
              "--nic verbs leaves out verbs:mlx5_4, verbs:mlx5_5: 4 ports are usable, and a rank "
              "has at most 2 NICs; name others with --nic verbs:DEVICE[:PORT]"});
  CHECK(choose_verbs(true, Ports{usable("mlx5_0"), usable("mlx5_1")}, 2).notes.empty());
}

TEST_CASE("verbs words: --nic verbs without such a port is UDP, and says why") {
  CHECK(
      choose_verbs(false, {}, 16).notes ==
      Notes{
          "--nic verbs: this build has no RDMA verbs (install libibverbs-dev and build again); UDP "
          "NICs are used instead"});
  CHECK(
      choose_verbs(true, {}, 16).notes ==
      Notes{"--nic verbs: this host has no RDMA device (`rdma link` lists them); UDP NICs are used "
            "instead"});
  const VerbsChoice none = choose_verbs(true, Ports{broken("mlx5_0"), broken("mlx5_1")}, 16);
  CHECK(none.nics.empty());
  CHECK(none.notes == Notes{"--nic verbs: verbs:mlx5_0: the port is down; bring its link up; "
                            "verbs:mlx5_1: the port is "
                            "down; bring its link up; UDP NICs are used instead"});
}

TEST_CASE("verbs words: who found nobody learns what his ports have turned away meanwhile") {
  const Ports before{usable("mlx5_0", 7), usable("mlx5_1", 100)};
  const auto lines = reasons_of_silence(before, Ports{usable("mlx5_0", 19), before[1]}, 40);
  REQUIRE(lines.size() == 1);
  CHECK_THAT(
      lines[0],
      Catch::StartsWith("verbs:mlx5_0 rejected 12 datagrams with a wrong P_Key during the run: ") &&
          Catch::Contains("one partition"));
}

TEST_CASE("verbs words: who found nobody learns which of his ports can't be used any more") {
  const Ports before{usable("mlx5_0"), usable("mlx5_1")};
  const auto lines = reasons_of_silence(before, Ports{before[0], broken("mlx5_1")}, 40);
  CHECK(lines == std::vector<std::string>{broken("mlx5_1").description});
}

TEST_CASE("verbs words: who found nobody, and his ports know nothing, learns what to compare") {
  const Ports ports{usable("mlx5_0", 7)};
  const auto sent = reasons_of_silence(ports, ports, 40);
  REQUIRE(sent.size() == 1);
  CHECK_THAT(sent[0], Catch::StartsWith("RDMA ports of this rank sent handshakes, and none was "
                                        "answered: compare the GIDs and P_Keys"));
  const auto unsent = reasons_of_silence(ports, ports, 0);
  REQUIRE(unsent.size() == 1);
  CHECK_THAT(unsent[0], Catch::StartsWith(
                            "no RDMA port of this rank found a route to the other rank's ports: "));
  CHECK(reasons_of_silence({}, {}, 40).empty());  // UDP alone
}

TEST_CASE("verbs words: the RDMA ports among the NICs, each with why it can't be used") {
  const std::vector<std::string> nics{"udp:127.0.0.1", "verbs:nowhere_0", "nonsense"};
  const Ports ports = verbs_ports_of(nics);
  REQUIRE(ports.size() == 1);
  CHECK(ports[0].name == "nowhere_0");
  CHECK_FALSE(ports[0].usable);
  CHECK_THAT(ports[0].description, Catch::StartsWith("verbs:nowhere_0: this "));
}

}  // namespace
}  // namespace hawser::tool
