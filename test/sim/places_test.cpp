// SPDX-License-Identifier: Apache-2.0
// When the judge accepts that a host may run out of places.
#include <catch2/catch.hpp>

#include "sim/storm/plan.hpp"

namespace hawser::test {
namespace {

// Three hosts, each with one place more than the two others need.
sim::Plan three_hosts() {
  sim::Plan plan;
  plan.tunables = sim::small_world();
  plan.tunables.max_peers = 3;
  plan.hosts.resize(3);
  return plan;
}

void add_nobody(sim::Plan& plan, std::uint32_t host, std::uint32_t dice) {
  sim::CallPlan call;
  call.kind = sim::CallKind::connect_nobody;
  call.host = host;
  call.dice = dice;
  plan.calls.push_back(call);
}

TEST_CASE("places__strangers_may_take_more_than_there_are") {
  sim::Plan plan = three_hosts();
  CHECK_FALSE(sim::may_lack_places(plan, 0));
  sim::FaultPlan fault;
  fault.kind = sim::FaultKind::strangers;
  fault.amount = 1;
  plan.faults.push_back(fault);
  CHECK_FALSE(sim::may_lack_places(plan, 0));
  plan.faults[0].amount = 2;
  CHECK(sim::may_lack_places(plan, 0));
  CHECK_FALSE(sim::may_lack_places(plan, 1));
  plan.has_secret = true;  // without the secret strangers take no place
  CHECK_FALSE(sim::may_lack_places(plan, 0));
}

TEST_CASE("places__nobodies_that_a_program_connects_take_one_each") {
  sim::Plan plan = three_hosts();
  plan.has_secret = true;
  add_nobody(plan, 2, 5);
  add_nobody(plan, 2, 5 + sim::kNobodies);  // the same nobody again
  CHECK_FALSE(sim::may_lack_places(plan, 2));
  add_nobody(plan, 1, 6);
  CHECK_FALSE(sim::may_lack_places(plan, 2));
  add_nobody(plan, 2, 6);
  CHECK(sim::may_lack_places(plan, 2));
}

TEST_CASE("places__more_hosts_than_places") {
  sim::Plan plan = three_hosts();
  plan.tunables.max_peers = 1;
  for (std::uint32_t host = 0; host < 3; ++host) CHECK(sim::may_lack_places(plan, host));
}

}  // namespace
}  // namespace hawser::test
