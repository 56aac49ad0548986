// SPDX-License-Identifier: Apache-2.0
// hawser::choose_nics among NICs that the test makes up.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/host/nic_list.hpp"
#include "engine/settings.hpp"
#include "hawser/nics.hpp"

namespace hawser {
namespace {

using Catch::Contains;
using Names = std::vector<std::string>;

HostNic udp(const std::string& address, const std::string& device) {
  return {.name = "udp:" + address, .device = device, .up = true, .loopback = device == "lo"};
}

HostNic in_state(HostNic nic, AddressState state) {
  nic.address_state = state;
  nic.up = state == AddressState::preferred || state == AddressState::deprecated;
  return nic;
}

HostNic port(const std::string& name, const std::string& device) {
  return {.name = "verbs:" + name, .device = device, .up = true};
}

// A host with NICs of all kinds.
std::vector<HostNic> host() {
  HostNic down = udp("10.3.0.7", "eth3");
  down.up = false;
  return {udp("fd00::7", "eth0"),       udp("10.0.0.7", "eth0"), udp("10.0.0.8", "eth0"),
          udp("10.1.0.7", "eth10"),     udp("fd02::7", "ib0"),   down,
          udp("172.17.0.1", "docker0"), udp("127.0.0.1", "lo"),  udp("::1", "lo")};
}

std::vector<HostNic> rdma_host() {
  std::vector<HostNic> nics{port("mlx5_0", "mlx5_0"), port("mlx5_1:1", "mlx5_1"),
                            port("mlx5_1:2", "mlx5_1")};
  for (HostNic& nic : host()) nics.push_back(nic);
  return nics;
}

Names names(std::string_view list, const std::vector<HostNic>& nics = host()) {
  return choose_nics(list, nics).nics;
}

std::string reason_of(const std::string& nic, const NicChoice& choice) {
  for (const NicCandidate& candidate : choice.candidates) {
    if (candidate.nic.name == nic) return candidate.reason;
  }
  return "not a candidate";
}

std::string error_of(std::string_view list, const std::vector<HostNic>& nics = host()) {
  try {
    (void)choose_nics(list, nics);
  } catch (const NicChoiceError& error) {
    return error.what();
  }
  return "no error";
}

TEST_CASE("choose_nics__by_default_one_address_a_device_and_no_bridge_of_containers") {
  CHECK(names("") == Names{"udp:10.0.0.7", "udp:10.1.0.7", "udp:fd02::7"});
  const NicChoice choice = choose_nics("", host());
  CHECK(reason_of("udp:10.0.0.7", choice) == "chosen");
  CHECK(reason_of("udp:fd00::7", choice) == "eth0 is in use by another of its addresses");
  CHECK(reason_of("udp:10.3.0.7", choice) == "eth3 is down");
  CHECK_THAT(reason_of("udp:172.17.0.1", choice), Contains("bridge of this host's containers"));
  CHECK(reason_of("udp:127.0.0.1", choice) == "loopback, and there are other NICs");
  CHECK(choice.notes.empty());
}

TEST_CASE("choose_nics__by_default_RDMA_ports_then_interfaces_then_bridges_then_loopback") {
  CHECK(names("", rdma_host()) == Names{"verbs:mlx5_0", "verbs:mlx5_1:1", "verbs:mlx5_1:2"});
  const std::vector<HostNic> bridges{udp("172.17.0.1", "docker0"),
                                     udp("172.18.0.1", "br-0123456789ab"), udp("127.0.0.1", "lo")};
  CHECK(names("", bridges) == Names{"udp:172.17.0.1", "udp:172.18.0.1"});
  CHECK(names("", {udp("10.0.0.1", "br-lan"), udp("172.17.0.1", "docker0")}) ==
        Names{"udp:10.0.0.1"});
  CHECK(names("", {udp("127.0.0.1", "lo"), udp("::1", "lo")}) == Names{"udp:127.0.0.1"});
}

TEST_CASE("choose_nics__by_interface") {
  CHECK(names("if:eth0") == Names{"udp:10.0.0.7"});
  CHECK(names("eth0") == Names{"udp:10.0.0.7"});
  CHECK(names("if:eth*") == Names{"udp:10.0.0.7", "udp:10.1.0.7"});
  CHECK(names("if:ib0,if:eth0") == Names{"udp:fd02::7", "udp:10.0.0.7"});
  CHECK(names("if:docker0") == Names{"udp:172.17.0.1"});
  CHECK(names("if:lo") == Names{"udp:127.0.0.1"});
  CHECK(names(" if:eth0 , ib0 ") == Names{"udp:10.0.0.7", "udp:fd02::7"});
  // A name matches as a whole: eth1 does not match eth10.
  CHECK_THAT(error_of("if:eth1"), Contains("\"if:eth1\" choose no NIC of this host"));
}

TEST_CASE("choose_nics__by_prefix") {
  CHECK(names("net:10.0.0.0/8") == Names{"udp:10.0.0.7", "udp:10.1.0.7"});
  CHECK(names("10.1.0.0/16") == Names{"udp:10.1.0.7"});
  CHECK(names("net:fd00::/16") == Names{"udp:fd00::7"});
  CHECK(names("net:fd00::/14") == Names{"udp:fd00::7", "udp:fd02::7"});
  CHECK(names("net:10.0.0.8/32") == Names{"udp:10.0.0.8"});
  CHECK(names("net:127.0.0.0/8") == Names{"udp:127.0.0.1"});
  // This matches all addresses of the host, but leaves out the container bridge.
  CHECK(names("net:0.0.0.0/0") == Names{"udp:10.0.0.7", "udp:10.1.0.7"});
  CHECK(names("net:172.16.0.0/12") == Names{"udp:172.17.0.1"});
  // A device gives one NIC, chosen by the first item that matches it.
  CHECK(names("net:fd00::/16,net:10.0.0.0/8") == Names{"udp:fd00::7", "udp:10.1.0.7"});
}

TEST_CASE("choose_nics__exclusion") {
  CHECK(names("!eth0") == Names{"udp:10.1.0.7", "udp:fd02::7"});
  CHECK(names("!eth*") == Names{"udp:fd02::7"});
  CHECK(names("!eth*,!ib0") == Names{"udp:172.17.0.1"});
  CHECK(names("^eth*,ib0,docker*") == Names{"udp:127.0.0.1"});
  CHECK(names("if:eth*,!eth10") == Names{"udp:10.0.0.7"});
  CHECK(names("!net:10.0.0.0/24,if:eth*") == Names{"udp:10.1.0.7", "udp:fd00::7"});
  CHECK(names("udp,!10.0.0.7") == Names{"udp:10.0.0.8", "udp:10.1.0.7", "udp:fd02::7"});
  CHECK(reason_of("udp:10.1.0.7", choose_nics("!eth1?", host())) == "left out by !eth1?");
}

TEST_CASE("choose_nics__RDMA_ports") {
  CHECK(names("verbs", rdma_host()) == Names{"verbs:mlx5_0", "verbs:mlx5_1:1", "verbs:mlx5_1:2"});
  CHECK(names("!mlx5_0", rdma_host()) == Names{"verbs:mlx5_1:1", "verbs:mlx5_1:2"});
  CHECK(names("!verbs:mlx5_1", rdma_host()) == Names{"verbs:mlx5_0"});
  CHECK(names("verbs:mlx5_*,!verbs:mlx5_1:1", rdma_host()) ==
        Names{"verbs:mlx5_0", "verbs:mlx5_1:2"});
  CHECK(names("!verbs", rdma_host()) == names(""));
  CHECK(names("udp", rdma_host()) == names("udp"));
  CHECK(names("mlx5_0,eth0", rdma_host()) == Names{"verbs:mlx5_0", "udp:10.0.0.7"});
  HostNic down = port("mlx5_0", "mlx5_0");
  down.up = false;
  down.obstacle = "its port is down";
  CHECK_THAT(error_of("verbs", {down}), Contains("verbs:mlx5_0: its port is down"));
}

TEST_CASE("choose_nics__names_are_taken_as_they_are") {
  CHECK(names("udp:127.0.0.2,memory:x,memory:x,verbs:mlx5_7:1@3") ==
        Names{"udp:127.0.0.2", "memory:x", "memory:x", "verbs:mlx5_7:1@3"});
  CHECK(names("192.0.2.1,fd00::9") == Names{"udp:192.0.2.1", "udp:fd00::9"});
  // The engine waits for a tentative address, or says why it can't have it.
  const std::vector<HostNic> nics{in_state(udp("fd00::7", "eth0"), AddressState::tentative)};
  CHECK(names("udp:fd00::7", nics) == Names{"udp:fd00::7"});
  // A second NIC of a device is used only if it is named.
  CHECK(names("udp:10.0.0.8,if:eth*") == Names{"udp:10.0.0.8", "udp:10.1.0.7"});
}

// These names are as host_nics() writes them: without port 1, and addresses in lower case.
TEST_CASE("choose_nics__a_NIC_is_the_same_however_its_name_is_written") {
  std::vector<HostNic> nics{port("mlx5_0", "mlx5_0"), port("mlx5_0:2", "mlx5_0"),
                            port("mlx5_1", "mlx5_1")};
  CHECK(names("!verbs:mlx5_0:1", nics) == Names{"verbs:mlx5_0:2", "verbs:mlx5_1"});
  CHECK(names("!verbs:mlx5_0:2", nics) == Names{"verbs:mlx5_0", "verbs:mlx5_1"});
  CHECK(names("!verbs:mlx5_0", nics) == Names{"verbs:mlx5_1"});
  CHECK(names("!verbs:mlx5_0@3", nics) == Names{"verbs:mlx5_0:2", "verbs:mlx5_1"});
  CHECK(names("verbs:mlx5_0:1,verbs", nics) ==
        Names{"verbs:mlx5_0:1", "verbs:mlx5_0:2", "verbs:mlx5_1"});
  CHECK(names("verbs:mlx5_0@3,verbs", nics) ==
        Names{"verbs:mlx5_0@3", "verbs:mlx5_0:2", "verbs:mlx5_1"});
  CHECK(names("udp,!udp:FD02::7") == Names{"udp:10.0.0.7", "udp:10.1.0.7"});
  CHECK(names("udp,!FD02:0::7") == Names{"udp:10.0.0.7", "udp:10.1.0.7"});
  CHECK(names("udp:FD00::7,eth0,eth10") == Names{"udp:FD00::7", "udp:10.1.0.7"});
  CHECK(names("fd00:0::7,eth*") == Names{"udp:fd00:0::7", "udp:10.1.0.7"});
  CHECK(names("udp:10.7,eth*", {udp("10.0.0.7", "eth0"), udp("10.0.0.8", "eth0")}) ==
        Names{"udp:10.7"});
  CHECK(names("udp:fe80::1%eth0,eth*") == Names{"udp:fe80::1%eth0", "udp:10.1.0.7"});
  const NicChoice choice = choose_nics("udp:FD00::7", host());
  CHECK(reason_of("udp:fd00::7", choice) == "chosen by udp:FD00::7");
}

TEST_CASE("choose_nics__addresses_that_are_not_preferred_are_left_out_with_a_line") {
  const auto [state, word] = GENERATE(table<AddressState, std::string>(
      {{AddressState::tentative, "tentative"}, {AddressState::duplicate, "duplicate"}}));
  const std::vector<HostNic> nics{udp("fd07::1", "eth0"), in_state(udp("fd08::1", "eth1"), state)};
  for (const char* list : {"", "udp", "if:eth*", "net:fd00::/8"}) {
    INFO(list);
    const NicChoice choice = choose_nics(list, nics);
    CHECK(choice.nics == Names{"udp:fd07::1"});
    REQUIRE(choice.notes.size() == 1);
    CHECK_THAT(choice.notes[0],
               Contains("NIC udp:fd08::1 (eth1) is left out: its address is") && Contains(word));
  }
  CHECK_THAT(error_of("if:eth1", nics), Contains("udp:fd08::1 (eth1): its address is") &&
                                            Contains(word) &&
                                            Contains("udp:fd07::1 (eth0): no item matches it"));
  // Another address of its device is usable, so nothing is lost.
  CHECK(choose_nics("", std::vector{udp("10.8.0.1", "eth1"), nics[1]}).notes.empty());
}

TEST_CASE("choose_nics__deprecated_addresses_are_for_those_who_name_them") {
  const std::vector<HostNic> nics{in_state(udp("fd07::1", "eth0"), AddressState::deprecated),
                                  udp("fd07::2", "eth0")};
  CHECK(names("", nics) == Names{"udp:fd07::2"});
  CHECK(names("if:eth0", nics) == Names{"udp:fd07::2"});
  CHECK(names("udp:fd07::1", nics) == Names{"udp:fd07::1"});
  CHECK_THAT(error_of("", {nics[0]}), Contains("its address is deprecated"));
}

TEST_CASE("choose_nics__an_address_that_gives_no_socket_costs_a_line") {
  HostNic refused = udp("10.1.0.7", "eth1");
  refused.up = false;
  refused.obstacle = "the system refuses a socket there: Permission denied";
  const NicChoice choice = choose_nics("", std::vector{udp("10.0.0.7", "eth0"), refused});
  CHECK(choice.nics == Names{"udp:10.0.0.7"});
  REQUIRE(choice.notes.size() == 1);
  CHECK_THAT(choice.notes[0], Contains("udp:10.1.0.7 (eth1)") && Contains("Permission denied"));
}

TEST_CASE("choose_nics__errors_list_what_there_was_and_why_not") {
  CHECK_THAT(error_of("if:eth3,!docker*"),
             Contains("NICs \"if:eth3,!docker*\" choose no NIC of this host: ") &&
                 Contains("udp:10.0.0.7 (eth0): no item matches it; ") &&
                 Contains("udp:10.3.0.7 (eth3): eth3 is down; ") &&
                 Contains("udp:172.17.0.1 (docker0): left out by !docker*"));
  CHECK_THAT(error_of("", {}), Contains("it has none at all"));
  try {
    (void)choose_nics("!*", host());
    FAIL("it chose");
  } catch (const NicChoiceError& error) {
    CHECK(error.candidates().size() == host().size());
  }
}

TEST_CASE("choose_nics__malformed_items_are_refused") {
  const auto [list, text] =
      GENERATE(table<std::string, std::string>({{"if:", "lacks the interface's name"},
                                                {"net:10.0.0.0/33", "is not a prefix"},
                                                {"net:eth0", "is not a prefix"},
                                                {"fd00::/129", "is not a prefix"},
                                                {"10.0.0.0/", "is not a prefix"},
                                                {"eth0,,eth1", "an item is empty"},
                                                {"eth0,", "an item is empty"},
                                                {"!", "an item is empty"},
                                                {"^", "an item is empty"},
                                                {"tcp:10.0.0.1", "has no kind"},
                                                {"udp:", "lacks its address"}}));
  INFO(list);
  CHECK_THAT(error_of(list), Contains(text));
}

TEST_CASE("choose_nics__what_matches_nothing_beside_others_costs_a_line") {
  const NicChoice choice = choose_nics("if:eth0,if:eth7", host());
  CHECK(choice.nics == Names{"udp:10.0.0.7"});
  REQUIRE(choice.notes.size() == 1);
  CHECK_THAT(choice.notes[0], Contains("if:eth7 matches no usable NIC of this host"));
}

// In NCCL_SOCKET_IFNAME, ^eth1 leaves out eth10 as well.
TEST_CASE("choose_nics__a_name_that_only_begins_another_is_told") {
  const NicChoice choice = choose_nics("^eth1", host());
  REQUIRE(choice.notes.size() == 1);
  CHECK_THAT(choice.notes[0], Contains("!eth1 excludes nothing, not even eth10; write !eth1*"));
  CHECK(choose_nics("^docker0", host()).notes.empty());
  CHECK(choose_nics("!virbr0", host()).notes.empty());  // a list may serve many hosts
}

TEST_CASE("choose_nics__at_most_sixteen") {
  std::vector<HostNic> nics;
  for (int i = 0; i < 18; ++i) {
    nics.push_back(udp("10.0." + std::to_string(i) + ".1", "eth" + std::to_string(i)));
  }
  const NicChoice choice = choose_nics("", nics);
  CHECK(choice.nics.size() == 16);
  CHECK_THAT(reason_of("udp:10.0.17.1", choice), Contains("16 NICs, which is the maximum"));
}

TEST_CASE("EngineConfig__takes_lists_as_well_as_names") {
  EngineConfig config;
  config.nics = {"net:127.0.0.0/8", "memory:x"};
  CHECK(engine::check(config).nics.size() == 2);
  config.nics = {"if:no-such-interface"};
  CHECK_THROWS_AS(engine::check(config), NicChoiceError);
  config.nics = {"if:lo,udp:127.0.0.1"};
  CHECK_THROWS_WITH(engine::check(config), Contains("\"udp:127.0.0.1\" is named twice"));
}

}  // namespace
}  // namespace hawser
