// SPDX-License-Identifier: Apache-2.0
#include "tool/run/fault_report.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

namespace hawser::tool {
namespace {

using Kind = TimedFault::Kind;
using Change = PathChange::Kind;
constexpr std::uint64_t kMs = 1'000'000;

// Three ranks of two NICs. Rank 1's NIC 0 dies at 100 ms; the others notice after 3 and 5 ms.
struct Run {
  RunOptions options;
  std::vector<RankResult> results{3};

  explicit Run(const char* fault) {
    options.ranks = 3;
    options.nics = 2;
    options.timed_faults = {parse_nic_fault(Kind::blackhole_nic, "", fault)};
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      results[rank].rank = rank;
    }
    results[0].path_changes = {{Change::path_down, 103 * kMs, 0, 1, 0},
                               {Change::blamed, 204 * kMs, 0, 1, 0, Blame::remote_nic}};
    results[2].path_changes = {{Change::path_down, 105 * kMs, 0, 1, 0},
                               {Change::blamed, 206 * kMs, 0, 1, 0, Blame::remote_nic}};
  }
};

TEST_CASE("fault_report: what was injected stands beside what was seen of it") {
  Run run("1.0@1/2:rx");
  run.results[1].injected = {{0, 100 * kMs}};
  const FaultReport report = compare_faults(run.options, run.results);
  REQUIRE(report.rows.size() == 1);
  const FaultRow& row = report.rows[0];
  CHECK(row.text == "rank 1: NIC 0 loses all that it receives");
  CHECK(row.hit == 1);
  CHECK(row.at_ns == 100 * kMs);
  CHECK(row.path_down.n == 1);
  CHECK(row.path_down.shortest_ns == 3 * kMs);
  CHECK(row.blamed.n == 1);
  CHECK(row.blamed.shortest_ns == 104 * kMs);
  CHECK(row.blamed_by_own_rank.n == 0);
  CHECK(report.not_injected.empty());
  const std::string text = to_text(report);
  CHECK(text.find("first path down: 3.00 ms") != std::string::npos);
  CHECK(text.find("by all ranks': 104.00 ms") != std::string::npos);
  CHECK(to_json(report)["injected"][0]["blamed"]["n"] == 1);
}

TEST_CASE("fault_report: what nobody injected is told as such") {
  Run run("1.1@1/2");
  run.results[1].injected = {{0, 100 * kMs}};
  const FaultReport report = compare_faults(run.options, run.results);
  CHECK(report.rows[0].path_down.n == 0);
  CHECK(report.rows[0].blamed.n == 0);
  REQUIRE_FALSE(report.not_injected.empty());
  CHECK(report.not_injected.back().verdict.blames({1, 0}));
  CHECK(to_text(report).find("seen, but not injected: NIC 0 of rank 1") != std::string::npos);
}

TEST_CASE("fault_report: who was started again counts from its own begin") {
  Run run("1.0@1/2");
  run.results[1].injected = {{0, 100 * kMs}};
  for (RankResult& result : run.results) result.begun_ns = 7000 * kMs;
  run.results[2].life = 1;
  run.results[2].begun_ns += 90 * kMs;
  run.results[2].path_changes = {{Change::path_down, 15 * kMs, 0, 1, 0},
                                 {Change::blamed, 116 * kMs, 0, 1, 0, Blame::remote_nic}};
  const FaultReport report = compare_faults(run.options, run.results);
  CHECK(report.not_injected.empty());
  CHECK(report.rows[0].path_down.shortest_ns == 3 * kMs);
  CHECK(report.rows[0].blamed.shortest_ns == 104 * kMs);
}

TEST_CASE("fault_report: a revival ends what a fault explains, after a while") {
  Run run("1.0@1/2");
  run.options.timed_faults.push_back(parse_nic_fault(Kind::revive_nic, "", "1.0@0.6"));
  run.results[1].injected = {{0, 10 * kMs}, {1, 20 * kMs}};
  FaultReport report = compare_faults(run.options, run.results);
  CHECK(report.rows[0].path_down.n == 0);  // too late to be this fault's
  CHECK(report.not_injected.empty());      // but in its aftermath
  for (RankResult& result : run.results) {
    for (PathChange& change : result.path_changes) {
      change.at_ns += 10'000 * kMs;
    }
  }
  report = compare_faults(run.options, run.results);
  CHECK_FALSE(report.not_injected.empty());
}

TEST_CASE("fault_report: a run without faults has none to tell of") {
  RunOptions options;
  CHECK(to_text(compare_faults(options, std::vector<RankResult>(8))).empty());
}

}  // namespace
}  // namespace hawser::tool
