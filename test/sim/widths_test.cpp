// SPDX-License-Identifier: Apache-2.0
// The judge's rule about the length of a session's packets.
#include <catch2/catch.hpp>

#include "sim/storm/widths.hpp"

namespace hawser::test {
namespace {

using proto::Duration;
using proto::milliseconds;

// Two hosts of two NICs, which take fragments of 1024 bytes.
sim::Plan two_hosts() {
  sim::Plan plan;
  plan.tunables = sim::small_world();
  plan.tunables.fragment_bytes = 1024;
  plan.hosts.resize(2);
  for (sim::HostPlan& host : plan.hosts) host.nics.resize(2);
  plan.heals_at = milliseconds(1000);
  return plan;
}

sim::FaultPlan narrow(double bytes, Duration at, Duration lasts) {
  sim::FaultPlan fault;
  fault.kind = sim::FaultKind::narrow;
  fault.amount = bytes;
  fault.at = at;
  fault.lasts = lasts;
  fault.other_host = 1;
  fault.other_nic = 1;
  return fault;
}

// Asks about a session of host 0, whose previous session ended at `since`.
bool may_take(const sim::Plan& plan, std::uint32_t bytes, Duration since, Duration at) {
  return sim::Widths(plan).may_take(0, 1, bytes, since, at);
}

TEST_CASE("widths__without_narrow_ways_nics_and_tunables_tell") {
  sim::Plan plan = two_hosts();
  CHECK(may_take(plan, 1024, {}, milliseconds(1)));
  CHECK_FALSE(may_take(plan, 1008, {}, milliseconds(1)));
  plan.hosts[1].nic.max_datagram_bytes = 512;
  CHECK(may_take(plan, 432, {}, milliseconds(1)));
  CHECK_FALSE(may_take(plan, 1024, {}, milliseconds(1)));
  CHECK(sim::Widths(plan).of_nics(0, 1) == 432);
}

TEST_CASE("widths__the_least_way_of_either_end_tells") {
  sim::Plan plan = two_hosts();
  plan.faults.push_back(narrow(700, {}, milliseconds(1000)));
  plan.faults.push_back(narrow(900, {}, milliseconds(1000)));
  CHECK(may_take(plan, 608, {}, milliseconds(1)));  // (700 - 80) / 16 * 16
  CHECK_FALSE(may_take(plan, 1024, {}, milliseconds(1)));
  CHECK(sim::Widths(plan).may_take(1, 0, 608, {}, milliseconds(1)));
  plan.faults[0].amount = 100;
  CHECK(may_take(plan, 256, {}, milliseconds(1)));  // the smallest size
  plan.hosts[1].nics[1].network = 1;                // these NICs are on different networks
  CHECK(may_take(plan, 1024, {}, milliseconds(1)));
}

TEST_CASE("widths__a_message_fits_the_ways_as_they_are", "[S42]") {
  sim::Plan plan = two_hosts();
  plan.faults.push_back(narrow(700, milliseconds(100), milliseconds(100)));
  const sim::Widths widths(plan);
  const auto may_send = [&](std::uint32_t bytes, std::uint32_t most, Duration at) {
    return widths.may_send(0, 1, bytes, most, at);
  };
  CHECK(may_send(1024, 1024, milliseconds(90)));
  CHECK_FALSE(may_send(448, 1024, milliseconds(90)));  // needlessly short
  CHECK(may_send(608, 1024, milliseconds(110)));
  CHECK(may_send(448, 1024, milliseconds(110)));
  CHECK_FALSE(may_send(304, 1024, milliseconds(110)));
  CHECK_FALSE(may_send(640, 1024, milliseconds(110)));
  CHECK_FALSE(may_send(1024, 1024, milliseconds(110)));
  CHECK(may_send(432, 432, milliseconds(110)));  // all that the session allows
  CHECK_FALSE(may_send(256, 432, milliseconds(110)));
  CHECK_FALSE(may_send(608, 1024, milliseconds(210)));
  CHECK(widths.may_send(1, 0, 1024, 1024, milliseconds(110)));
}

TEST_CASE("widths__a_way_counts_as_it_was_when_the_session_began") {
  sim::Plan plan = two_hosts();
  plan.faults.push_back(narrow(700, milliseconds(100), milliseconds(100)));
  CHECK_FALSE(may_take(plan, 608, {}, milliseconds(90)));
  CHECK(may_take(plan, 1024, {}, milliseconds(90)));
  CHECK(may_take(plan, 608, {}, milliseconds(110)));
  CHECK(may_take(plan, 1024, {}, milliseconds(110)));  // the session may have begun before
  CHECK(may_take(plan, 608, milliseconds(110), milliseconds(120)));
  CHECK_FALSE(may_take(plan, 1024, milliseconds(110), milliseconds(120)));
  CHECK(may_take(plan, 1024, milliseconds(210), milliseconds(220)));
  CHECK_FALSE(may_take(plan, 608, milliseconds(210), milliseconds(220)));
}

}  // namespace
}  // namespace hawser::test
