// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "tool/error.hpp"
#include "tool/run/fault_plan.hpp"

namespace hawser::tool {
namespace {

using Kind = TimedFault::Kind;

TEST_CASE("fault_plan: moments are fractions of the steps") {
  CHECK(parse_fraction("1/3").value() == Approx(1.0 / 3));
  CHECK(parse_fraction("0.25").value() == Approx(0.25));
  CHECK(parse_fraction("0").value() == 0);
  CHECK(parse_fraction("2.5/5").value() == Approx(0.5));
  for (const char* bad :
       {"", "1", "1/0", "-1", "1.1", "3/2", "1/", "/2", "x", "1/3x", "nan", "inf", "0x1"}) {
    INFO(bad);
    CHECK_FALSE(parse_fraction(bad));
  }
}

TEST_CASE("fault_plan: black holes") {
  const auto word = [](const char* text) {
    return fault_word(parse_nic_fault(Kind::blackhole_nic, "--blackhole", text));
  };
  CHECK(word("2@1/3") == "blackhole=both");
  CHECK(word("0.2@1/3:tx") == "blackhole=tx");
  CHECK(word("2@1/3:rx") == "blackhole=rx");
  CHECK(word("2@1/3:both") == "blackhole=both");
  CHECK_THROWS_WITH(
      word("2@1/3:up"),
      "--blackhole 2@1/3:up: expected [RANK.]NIC@WHEN[:tx|:rx|:both], such as 2@1/3:tx");
  CHECK_THROWS_AS(word("2@1/3:event"), InputError);
}

TEST_CASE("fault_plan: NIC faults") {
  const TimedFault all = parse_nic_fault(Kind::kill_nic, "--kill-nic", "2@1/3");
  CHECK_FALSE(all.rank);
  CHECK(all.nic == 2);
  CHECK_FALSE(all.event);
  CHECK(all.concerns(7));
  CHECK(fault_word(all) == "kill");

  const TimedFault one = parse_nic_fault(Kind::revive_nic, "--revive-nic", "5.0@0.5:event");
  CHECK(one.rank == 5u);
  CHECK(one.nic == 0);
  CHECK(one.event);
  CHECK_FALSE(one.concerns(4));
  CHECK(fault_word(one) == "revive:event,tx.rate=none,rx.rate=none,blackhole=none");

  CHECK(parse_nic_fault(Kind::degrade_nic, "", "1@0.5").bytes_per_s == kDegradedBytesPerS);
  CHECK(fault_word(parse_nic_fault(Kind::degrade_nic, "", "1@0.5:2.5M")) ==
        "tx.rate=2500000,rx.rate=2500000");

  for (const char* bad : {"", "2", "@1/3", "2@", "2@2", "x@1/3", ".2@1/3", "1.@1/3", "1.2.3@1/3",
                          "-1@1/3", "70000@0", "2@1/3:", "2@1/3:evening"}) {
    INFO(bad);
    CHECK_THROWS_AS(parse_nic_fault(Kind::kill_nic, "--kill-nic", bad), InputError);
  }
  CHECK_THROWS_AS(parse_nic_fault(Kind::degrade_nic, "", "2@1/3:fast"), InputError);
  CHECK_THROWS_WITH(parse_nic_fault(Kind::kill_nic, "--kill-nic", "2"),
                    "--kill-nic 2: expected [RANK.]NIC@WHEN[:event], such as 2@1/3");
}

TEST_CASE("fault_plan: a degraded NIC's rate is told as it was given") {
  const auto told = [](const char* text) {
    return describe(parse_nic_fault(Kind::degrade_nic, "--degrade-nic", text));
  };
  CHECK(told("2@1/3") == "NIC 2 degraded to 50 MB/s");
  CHECK(told("2@1/3:2.5M") == "NIC 2 degraded to 2.5 MB/s");
  CHECK(told("2@1/3:1G") == "NIC 2 degraded to 1000 MB/s");
  CHECK(told("2@1/3:1k") == "NIC 2 degraded to 1 kB/s");
  CHECK(told("2@1/3:10.5k") == "NIC 2 degraded to 10.5 kB/s");
  CHECK(told("2@1/3:7") == "NIC 2 degraded to 7 B/s");
}

TEST_CASE("fault_plan: rank faults") {
  const TimedFault fault = parse_rank_fault(Kind::kill_rank, "--kill-rank", "3@1/2");
  CHECK(fault.kind == Kind::kill_rank);
  CHECK(fault.rank == 3u);
  CHECK(fault.when == 0.5);
  CHECK_THROWS_AS(parse_rank_fault(Kind::kill_rank, "--kill-rank", "3@1/2:event"), InputError);
  CHECK_THROWS_AS(parse_rank_fault(Kind::kill_rank, "--kill-rank", "3.1@1/2"), InputError);
}

std::vector<TimedFault> faults(std::initializer_list<std::pair<Kind, const char*>> list) {
  std::vector<TimedFault> parsed;
  for (const auto& [kind, text] : list) parsed.push_back(parse_nic_fault(kind, "", text));
  return parsed;
}

TEST_CASE("fault_plan: the window lasts from the first fault to the last revival") {
  CHECK_FALSE(fault_window({}).exists());
  const FaultWindow healed = fault_window(faults({{Kind::kill_nic, "2@1/4"},
                                                  {Kind::kill_nic, "1@1/2"},
                                                  {Kind::revive_nic, "1@0.6"},
                                                  {Kind::revive_nic, "2@3/4"}}));
  CHECK(healed.begin == 0.25);
  CHECK(healed.end == 0.75);
  // NIC 1 stays dead.
  CHECK(fault_window(faults({{Kind::kill_nic, "2@1/4"},
                             {Kind::kill_nic, "1@1/2"},
                             {Kind::revive_nic, "2@3/4"}}))
            .end > 1);
  // NIC 2 is revived and killed again.
  CHECK(fault_window(faults({{Kind::kill_nic, "2@1/4"},
                             {Kind::revive_nic, "2@1/2"},
                             {Kind::kill_nic, "2@3/4"}}))
            .end > 1);
  // NIC 2 is killed on one rank and revived on all.
  CHECK(fault_window(faults({{Kind::kill_nic, "3.2@1/4"}, {Kind::revive_nic, "2@1/2"}})).end ==
        0.5);
  // NIC 2 is killed on all ranks and revived on one.
  CHECK(fault_window(faults({{Kind::kill_nic, "2@1/4"}, {Kind::revive_nic, "3.2@1/2"}})).end > 1);
}

TEST_CASE("fault_plan: a collective that touches the window is during") {
  const FaultWindow window{0.25, 0.75};
  CHECK(classify(window, 0.1, 0.2) == When::before);
  CHECK(classify(window, 0.1, 0.25) == When::before);
  CHECK(classify(window, 0.2, 0.3) == When::during);
  CHECK(classify(window, 0.3, 0.4) == When::during);
  CHECK(classify(window, 0.7, 0.8) == When::during);
  CHECK(classify(window, 0.75, 0.8) == When::after);
  CHECK(classify(FaultWindow{}, 0.5, 0.6) == When::before);
}

}  // namespace
}  // namespace hawser::tool
