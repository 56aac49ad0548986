// SPDX-License-Identifier: Apache-2.0
// The judge's rule about messages that arrive too late in the middle of a storm.
#include <catch2/catch.hpp>
#include <string>

#include "sim/storm/liveness.hpp"

namespace hawser::test {
namespace {

using proto::Duration;
using proto::microseconds;
using proto::milliseconds;
using sim::FaultKind;

// Two hosts of two NICs, with a message each way. The longest probe interval is one millisecond,
// and the longest interval of requests ten. Other timers are far shorter.
sim::Plan two_hosts() {
  sim::Plan plan;
  plan.tunables = sim::small_world();
  plan.tunables.initial_rtt_us = 50;
  plan.tunables.handshake_retry_us = 100;
  plan.tunables.timer_granularity_us = 50;
  plan.tunables.late_wakeup_us = 50;
  plan.tunables.path_probe_max_us = 1000;
  plan.tunables.peer_timeout_ms = 80;
  plan.hosts.resize(2);
  for (sim::HostPlan& host : plan.hosts) host.nics.resize(2);
  plan.messages.resize(2);
  plan.messages[0] = {.from = 0, .to = 1, .bytes = 1000};
  plan.messages[1] = {.from = 1, .to = 0, .bytes = 1000};
  plan.heals_at = milliseconds(1000);
  return plan;
}

// The judge's verdict about message 0, which is posted at the start and takes this long.
std::string verdict_after(const sim::Plan& plan, Duration took) {
  const sim::Reasons reasons(plan);
  sim::Liveness liveness(plan, reasons);
  return liveness.on_received({.now = took, .judged = true});
}

sim::FaultPlan fault(FaultKind kind, Duration at, Duration lasts) {
  return {.kind = kind, .at = at, .lasts = lasts};
}

TEST_CASE("liveness__nothing_at_fault") {
  const sim::Plan plan = two_hosts();
  CHECK(verdict_after(plan, microseconds(400)) == "");
  CHECK(verdict_after(plan, milliseconds(2)) != "");
}

// The window has two packets at least. It stays there if the hosts sleep for longer than its
// target, as each round may then look congested.
TEST_CASE("liveness__a_target_shorter_than_the_hosts_can_measure") {
  sim::Plan plan = two_hosts();
  plan.tunables.fragment_bytes = 1024;
  plan.messages[0].bytes = 2000 * 1024;
  const bool is_short = GENERATE(true, false);
  plan.tunables.delay_target_us = is_short ? 34 : 35;
  plan.hosts[0].turn = microseconds(5);
  plan.hosts[0].wake_up = microseconds(30);
  const Duration quick = milliseconds(20);
  const Duration slow = microseconds(1001 * (200 + 35 + 6));  // of a cable with 1 us
  CHECK((verdict_after(plan, quick * 2) == "") == is_short);
  CHECK((verdict_after(plan, slow) == "") == is_short);
  CHECK(verdict_after(plan, slow + quick) != "");
}

TEST_CASE("liveness__a_way_is_open") {
  sim::Plan plan = two_hosts();
  plan.faults.push_back(fault(FaultKind::nic_silent, milliseconds(1), milliseconds(200)));
  CHECK(verdict_after(plan, milliseconds(20)) == "");
  CHECK(verdict_after(plan, milliseconds(60)) != "");
}

// Calls of a new session try one pair of NICs after the other. Calls are up to 15 ms apart here, so
// they try the last one of the four pairs within 45 ms.
TEST_CASE("liveness__the_session_is_established_meanwhile") {
  sim::Plan plan = two_hosts();
  plan.tunables.handshake_retry_us = 10'000;
  plan.faults.push_back(fault(FaultKind::nic_silent, milliseconds(1), milliseconds(900)));
  const sim::Reasons reasons(plan);
  const auto verdict = [&](Duration established, Duration took) {
    sim::Liveness liveness(plan, reasons);
    return liveness.on_received({.established = established, .now = took, .judged = true});
  };
  CHECK(verdict(Duration{}, milliseconds(80)) != "");
  CHECK(verdict(milliseconds(60), milliseconds(80)) == "");
  CHECK(verdict(milliseconds(60), milliseconds(140)) != "");
}

TEST_CASE("liveness__no_way_is_open_or_a_host_is_away") {
  const FaultKind kind = GENERATE(FaultKind::partition, FaultKind::pause);
  sim::Plan plan = two_hosts();
  plan.faults.push_back(fault(kind, milliseconds(1), milliseconds(200)));
  CHECK(verdict_after(plan, milliseconds(200)) == "");
  CHECK(verdict_after(plan, milliseconds(260)) != "");
}

TEST_CASE("liveness__only_a_pair_without_a_path_is_whole") {
  sim::Plan plan = two_hosts();
  sim::FaultPlan first = fault(FaultKind::nic_silent, milliseconds(1), milliseconds(900));
  sim::FaultPlan second = first;
  second.host = 1;
  second.nic = 1;
  plan.faults = {first, second};
  plan.tunables.peer_timeout_ms = 400;  // the search for the pair takes up to 100 ms
  CHECK(verdict_after(plan, milliseconds(180)) == "");
  CHECK(verdict_after(plan, milliseconds(320)) != "");
}

// The time of the search does not run while one of the two hosts is away.
TEST_CASE("liveness__a_search_stands_still_while_a_host_is_away") {
  sim::Plan plan = two_hosts();
  sim::FaultPlan first = fault(FaultKind::nic_silent, milliseconds(1), milliseconds(900));
  sim::FaultPlan second = first;
  second.host = 1;
  second.nic = 1;
  plan.faults = {first, second, fault(FaultKind::pause, milliseconds(10), milliseconds(500))};
  plan.tunables.peer_timeout_ms = 400;
  CHECK(verdict_after(plan, milliseconds(680)) == "");
  CHECK(verdict_after(plan, milliseconds(820)) != "");
}

TEST_CASE("liveness__waiting_begins_anew_with_each_arrival") {
  const sim::Plan plan = two_hosts();
  const sim::Reasons reasons(plan);
  sim::Liveness liveness(plan, reasons);
  const auto arrives = [&](std::uint32_t message, Duration posted, Duration now, bool judged) {
    return liveness.on_received(
        {.message = message, .posted = posted, .now = now, .judged = judged});
  };
  CHECK(arrives(1, milliseconds(9), milliseconds(9), true) == "");
  CHECK(arrives(0, Duration{}, milliseconds(9), true) != "");
  CHECK(arrives(0, Duration{}, milliseconds(9) + microseconds(300), true) == "");
  CHECK(arrives(0, Duration{}, milliseconds(20), false) == "");
}

TEST_CASE("liveness__without_recovery_there_is_no_bound") {
  sim::Plan plan = two_hosts();
  plan.tunables.recovery_request = 0;
  CHECK(verdict_after(plan, milliseconds(900)) == "");
}

}  // namespace
}  // namespace hawser::test
