// SPDX-License-Identifier: Apache-2.0
// Plans that would fail through no fault of the protocol are refused, with a sentence that says
// where the mistake is.
#include "sim/storm/plan_check.hpp"

#include <catch2/catch.hpp>
#include <functional>
#include <string>

namespace hawser::sim {
namespace {

// The complaint about a drawn plan that `spoil` has changed.
std::string complaint(const std::function<void(Plan&)>& spoil) {
  Plan plan = draw_plan(3);
  spoil(plan);
  return complaint_about(plan);
}

TEST_CASE("storm_plan_check__all_that_is_drawn_is_taken", "[long]") {
  for (std::uint64_t seed = 1; seed <= 20000; ++seed) {
    CAPTURE(seed);
    REQUIRE(complaint_about(draw_plan(seed)) == "");
    if (seed > 2000) continue;
    REQUIRE(complaint_about(draw_plan(kFirstOfPartners - 1 + seed)) == "");
    REQUIRE(complaint_about(draw_plan(kFirstOfOneSided - 1 + seed)) == "");
  }
}

TEST_CASE("storm_plan_check__addresses_are_taken_over_of_another_host_that_was_there") {
  const auto with = [](std::uint32_t before, proto::Duration starts) {
    return complaint([&](Plan& plan) {
      plan.hosts[1].nics = plan.hosts[0].nics;
      plan.hosts[1].takes_over = before;
      plan.hosts[1].starts = starts;
    });
  };
  const std::string wrong = "hosts[1]: it can't take over the addresses of that host";
  CHECK(with(0, proto::milliseconds(1)) == "");
  CHECK(with(0, {}) == wrong);
  CHECK(with(1, proto::milliseconds(1)) == wrong);
  CHECK(with(99, proto::milliseconds(1)) == wrong);
  CHECK(complaint([](Plan& plan) {
          plan.hosts[1].nics = plan.hosts[0].nics;
          plan.hosts[1].nics.push_back(plan.hosts[0].nics[0]);
          plan.hosts[1].takes_over = 0;
          plan.hosts[1].starts = proto::milliseconds(1);
        }) == "hosts[1]: it takes over the addresses of a host with more NICs, or fewer");
}

TEST_CASE("storm_plan_check__channels_are_those_that_are_looked_at") {
  CHECK(complaint([](Plan& plan) { plan.messages[1].channel = 2; }) ==
        "messages[1]: channel is 2, which no host looks at; valid ones are 0, 1 and 32768");
  CHECK(complaint([](Plan& plan) { plan.receives[0].channel = 32769; }) ==
        "receives[0]: channel is 32769, which no host looks at; valid ones are 0, 1 and 32768");
  CHECK(complaint([](Plan& plan) { plan.receives[0].channel = kCollectiveChannel; }) == "");
}

TEST_CASE("storm_plan_check__messages_and_receives_have_no_more_pieces_than_the_engine_takes") {
  CHECK(complaint([](Plan& plan) { plan.messages[1].pieces = 9; }) ==
        "messages[1]: it has more than 8 pieces");
  CHECK(complaint([](Plan& plan) { plan.receives[0].pieces = 9; }) ==
        "receives[0]: it has more than 8 pieces");
  CHECK(complaint([](Plan& plan) { plan.receives[0].pieces = 8; }) == "");
}

TEST_CASE("storm_plan_check__hosts_and_cables_are_what_a_protocol_may_take_for_granted") {
  CHECK(complaint([](Plan& plan) { plan.hosts[1].turn = proto::milliseconds(86'400'000); }) ==
        "hosts[1]: turn_ns is 86400000000000, not 1 to 100000");
  CHECK(complaint([](Plan& plan) { plan.hosts[1].turn = {}; }) ==
        "hosts[1]: turn_ns is 0, not 1 to 100000");
  CHECK(complaint([](Plan& plan) { plan.hosts[0].wake_up = proto::milliseconds(2); }) ==
        "hosts[0]: wake_up_ns is 2000000, not 0 to 1000000");
  CHECK(complaint([](Plan& plan) {
          plan.hosts[0].nics[0].cable.latency = proto::milliseconds(3'600'000);
        }) == "hosts[0].nics[0]: latency_ns is 3600000000000, not 0 to 1000000");
  CHECK(complaint([](Plan& plan) { plan.hosts[0].nics[0].cable.bytes_per_s = 1000; }) ==
        "hosts[0].nics[0]: bytes_per_s is 1000, not 10000000 to 1000000000000");
  CHECK(complaint([](Plan& plan) {
          for (HostPlan& host : plan.hosts) host.nic.max_datagram_bytes = 4096;
          plan.hosts[1].nics[0].cable.queue_bytes = 4095;
        }) == "hosts[1].nics[0]: queue_bytes is 4095, less than a datagram of 4096");
  CHECK(complaint([](Plan& plan) {
          plan.hosts[1].nic.needs_checksum = !plan.hosts[0].nic.needs_checksum;
        }) == "hosts[1]: needs_checksum differs from that of hosts[0]: both ends must agree");
}

TEST_CASE("storm_plan_check__every_nic_can_reach_every_other_one") {
  const auto three_switches = [](Plan& plan) {
    plan.switches = 3;
    plan.cables = {{0, 1, {}}, {1, 2, {}}};
    plan.faults.clear();
    for (HostPlan& host : plan.hosts) {
      for (PortPlan& nic : host.nics) nic.at_switch = 0;
    }
    plan.hosts[1].nics[0].at_switch = 2;
  };
  CHECK(complaint(three_switches) == "");
  CHECK(complaint([&](Plan& plan) {
          three_switches(plan);
          plan.cables.pop_back();
        }) == "hosts[1].nics[0]: no cable joins its switch 2 with switch 0 of hosts[0].nics[0]");
  CHECK(complaint([&](Plan& plan) {
          three_switches(plan);
          std::swap(plan.cables[0], plan.cables[1]);
        }) == "");
}

TEST_CASE("storm_plan_check__all_bytes_have_a_bound") {
  const auto receives = [](std::uint64_t count, std::uint64_t bytes) {
    return complaint([=](Plan& plan) {
      ReceivePlan receive = plan.receives[0];
      receive.bytes = bytes;
      plan.receives.assign(count, receive);
    });
  };
  CHECK(receives(4, 64 << 20) == "");
  CHECK(receives(5, 64 << 20) == "receives[4]: bytes up to here are more than 268435456 in all");
  CHECK(receives(500, 1 << 30) == "receives[0]: bytes up to here are more than 268435456 in all");
  CHECK(receives(3, ~std::uint64_t{0}) ==
        "receives[0]: bytes up to here are more than 268435456 in all");
  CHECK(complaint([](Plan& plan) { plan.messages[0].bytes = 257 << 20; }) ==
        "messages[0]: bytes up to here are more than 268435456 in all");
}

TEST_CASE("storm_plan_check__ranges_are_told") {
  CHECK(complaint([](Plan& plan) { plan.hosts.resize(1); }) ==
        "the number of hosts is 1, not 2 to 64");
  CHECK(complaint([](Plan& plan) { plan.switches = 0; }) == "switches is 0, not 1 to 1024");
  CHECK(complaint([](Plan& plan) {
          plan.tunables.max_operations = 0;
        }).starts_with("tunables: max_operations is 0, not "));
  CHECK(complaint([](Plan& plan) { plan.hosts[0].nic.max_datagram_bytes = 9; }) ==
        "hosts[0]: max_datagram_bytes is 9, not 512 to 65507");
}

}  // namespace
}  // namespace hawser::sim
