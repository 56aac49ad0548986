// SPDX-License-Identifier: Apache-2.0
#include "plugin/ofi/fault_plan.hpp"

#include <catch2/catch.hpp>

using hawser::ofi::parse_fault_plan;
using hawser::ofi::PlannedFault;

TEST_CASE("FaultPlan__entries_by_time_words_joined") {
  std::vector<PlannedFault> plan;
  REQUIRE(parse_fault_plan("4s:1:revive,250ms:0:loss=0.1+seed=7,2s:1:kill:event", plan).empty());
  REQUIRE(plan.size() == 3);
  CHECK(plan[0].at.count() == 250);
  CHECK(plan[0].nic == 0);
  CHECK(plan[0].spec == "loss=0.1,seed=7");
  CHECK(plan[1].at.count() == 2000);
  CHECK(plan[1].spec == "kill:event");
  CHECK(plan[2].spec == "revive");
  CHECK(parse_fault_plan("", plan).empty());
  CHECK(plan.empty());
}

TEST_CASE("FaultPlan__what_is_wrong_is_named") {
  std::vector<PlannedFault> plan;
  for (const std::string text : {"kill", "2s", "2s:1", "2s:1:", "2:1:kill", "-1s:0:kill",
                                 "2s:x:kill", "s:0:kill", "2s:0:kill,", "2s:0:kill,,3s:0:kill"}) {
    const std::string complaint = parse_fault_plan(text, plan);
    if (text == "2s:0:kill,") {
      CHECK(complaint.empty());
    } else {
      INFO(text);
      CHECK(complaint.find("TIME:NIC:WORD") != std::string::npos);
    }
  }
}

TEST_CASE("FaultPlan__words_are_known_beforehand") {
  std::vector<PlannedFault> plan;
  CHECK(parse_fault_plan("1s:0:kill,2s:1:die", plan).find("\"die\" is not a word") !=
        std::string::npos);
  CHECK(parse_fault_plan("1s:0:loss=0.1+reorder=2", plan).find("\"reorder=2\"") !=
        std::string::npos);
}
