// SPDX-License-Identifier: Apache-2.0
#include "tool/run/summary.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

namespace hawser::tool {
namespace {

using Kind = TimedFault::Kind;

TEST_CASE("summary: nearest-rank percentiles") {
  CHECK(percentile({}, 50) == 0);
  CHECK(percentile({7}, 50) == 7);
  CHECK(percentile({7}, 99) == 7);
  CHECK(percentile({1, 2, 3, 4}, 50) == 2);
  CHECK(percentile({1, 2, 3, 4}, 99) == 4);
  std::vector<std::uint64_t> hundred;
  for (std::uint64_t i = 1; i <= 100; ++i) hundred.push_back(i);
  CHECK(percentile(hundred, 99) == 99);
  CHECK(percentile(hundred, 50) == 50);
  CHECK(percentile(hundred, 0) == 1);
}

TEST_CASE("summary: bus factors are those of nccl-tests") {
  CHECK(bus_factor(Operation::all_reduce, 8) == Approx(1.75));
  CHECK(bus_factor(Operation::all_gather, 8) == Approx(0.875));
  CHECK(bus_factor(Operation::all_to_all, 2) == Approx(0.5));
  CHECK(bus_factor(Operation::broadcast, 8) == 1);
}

// Two ranks, three steps of two all-reduces of 1000 and 3000 bytes, and a barrier.
struct Run {
  RunOptions options;
  Schedule schedule;
  std::vector<RankResult> results;

  Run() {
    options.ranks = 2;
    options.steps = 3;
    Workload workload;
    for (const std::uint64_t bytes : {1000u, 3000u}) {
      Phase phase;
      phase.bytes = bytes;
      workload.step.push_back(phase);
    }
    Phase barrier;
    barrier.operation = Operation::barrier;
    workload.step.push_back(barrier);
    schedule = make_schedule(workload, 2, 1);
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      RankResult result;
      result.rank = rank;
      for (std::uint64_t i = 0; i < 9; ++i) {
        result.task_ns.push_back(1000 * (i + 1) + (i % 2 == rank ? 500 : 0));
      }
      result.counters = {{"messages_sent", 10}, {"messages_received", 10}};
      result.verified_bytes = 12'000;
      result.verified_tasks = 9;
      results.push_back(result);
    }
  }
};

TEST_CASE("summary: a collective takes as long as at the slowest rank") {
  const Run run;
  const Summary summary = summarize(run.options, run.schedule, run.results);
  CHECK(summary.complete);
  CHECK(summary.wrong.empty());
  REQUIRE(summary.times.size() == 1);  // barriers move nothing
  const TimeRow& row = summary.times[0];
  CHECK(row.n == 6);
  CHECK(row.when == When::before);
  // 1.5, 2.5, 4.5, 5.5, 7.5, 8.5 us
  CHECK(row.p50_ns == 4500);
  CHECK(row.p99_ns == 8500);
  CHECK(row.longest_ns == 8500);
  CHECK(row.algorithm_bytes_per_s == Approx(12'000 / 30e-6));
  CHECK(row.bus_bytes_per_s == Approx(12'000 / 30e-6));  // two ranks: a factor of 1
  CHECK(summary.verified_bytes == 24'000);
}

TEST_CASE("summary: ranks that were back, and messages compared from then on") {
  Run run;
  run.results[0].recoveries = {{1, "peer_restarted", 2, 5'000'000}};
  run.results[0].counters = {{"messages_sent", 30}, {"messages_received", 25}};
  run.results[1].life = 1;
  CHECK_FALSE(summarize(run.options, run.schedule, run.results).wrong.empty());
  run.results[0].messages_sent_before = 20;
  run.results[0].messages_received_before = 15;
  const Summary summary = summarize(run.options, run.schedule, run.results);
  CHECK(summary.wrong.empty());
  REQUIRE(summary.recoveries.size() == 1);
  CHECK(summary.recoveries[0] ==
        "rank 1 ended and was restarted: reported as peer_restarted by 1 rank; step 2 was "
        "repeated, 5.00 ms after the other ranks noticed");
}

TEST_CASE("summary: collectives before, during and after the faults") {
  Run run;
  run.options.timed_faults = {parse_nic_fault(Kind::kill_nic, "", "0@1/3"),
                              parse_nic_fault(Kind::revive_nic, "", "0@2/3")};
  const Summary summary = summarize(run.options, run.schedule, run.results);
  REQUIRE(summary.times.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(summary.times[i].when == static_cast<When>(i));
    CHECK(summary.times[i].n == 2);
    CHECK(summary.times[i].p50_ns == 1500 + 3000 * i);
  }
  const std::string text = to_text(summary, run.options);
  CHECK(text.find("before") != std::string::npos);
  CHECK(text.find("ok: every byte of 18 results is right") != std::string::npos);
}

TEST_CASE("summary: the longest stall, and whose") {
  Run run;
  run.results[0].stalls[0] = {5'000'000, 0, 0.1};
  run.results[1].stalls[0] = {9'000'000, 4'000'000, 0.7};
  const Summary summary = summarize(run.options, run.schedule, run.results);
  CHECK(summary.stalls[0].ns == 9'000'000);
  CHECK(summary.stall_ranks[0] == 1);
  CHECK(to_text(summary, run.options).find("longest stall: 9.00 ms, rank 1 at 70%") !=
        std::string::npos);
}

TEST_CASE("summary: what RDMA devices read in place, if there were any") {
  Run run;
  const auto text = [&] {
    return to_text(summarize(run.options, run.schedule, run.results), run.options);
  };
  CHECK(text().find("RDMA devices") == std::string::npos);
  run.results[0].counters["payload_bytes_in_place"] = 3'000'000;
  run.results[1].counters["payload_bytes_copied"] = 5'000;
  CHECK(text().find("RDMA devices: 3.0 MB of payload read in place, 5.0 kB copied for them\n") !=
        std::string::npos);
}

TEST_CASE("summary: what ways have room for, and what came of those that changed") {
  Run run;
  const auto text = [&] {
    return to_text(summarize(run.options, run.schedule, run.results), run.options);
  };
  const auto says = [&](const char* words) { return text().find(words) != std::string::npos; };
  CHECK_FALSE(says("full packets"));
  run.results[0].fragment_bytes_least = run.results[0].fragment_bytes_most = 1280;
  run.results[1].fragment_bytes_least = run.results[1].fragment_bytes_most = 1280;
  CHECK(says("full packets: 1280 bytes of payload\n"));
  run.results[1].fragment_bytes_most = 1392;
  CHECK(says("full packets: 1280 bytes of payload in one session, 1392 in another\n"));
  CHECK_FALSE(says("routes:"));
  CHECK_FALSE(says("segmentation"));
  CHECK_FALSE(says("devices:"));
  run.results[0].counters["datagrams_fragmented"] = 7;
  run.results[1].counters["segmentation_refused"] = 2;
  run.results[1].counters["segmentation_resumed"] = 1;
  run.results[1].counters["datagrams_by_other_devices"] = 5;
  CHECK(
      says("routes: 7 packets were longer than the MTU of their route, and the kernel sent them as "
           "IP fragments"));
  CHECK(says("segmentation offload: refused 2 times, resumed 1 time\n"));
  CHECK(says("devices: 5 packets arrived through another device than their NIC's"));
}

TEST_CASE("summary: packets that switches marked, if there were any") {
  Run run;
  const auto text = [&] {
    return to_text(summarize(run.options, run.schedule, run.results), run.options);
  };
  CHECK(text().find("congestion") == std::string::npos);
  run.results[0].counters["packets_marked"] = 3;
  run.results[1].counters["packets_marked"] = 4;
  CHECK(text().find("congestion: 7 packets arrived marked by switches (ECN)\n") !=
        std::string::npos);
}

TEST_CASE("summary: everything that is not right is told") {
  const auto wrong_of = [](auto change) {
    Run run;
    change(run.results[1]);
    const Summary summary = summarize(run.options, run.schedule, run.results);
    REQUIRE(summary.wrong.size() == 1);
    CHECK(to_text(summary, run.options).find("ok:") == std::string::npos);
    return summary.wrong[0];
  };
  CHECK(wrong_of([](RankResult& r) { r.wrong = {"step 0: 3 wrong"}; }) ==
        "rank 1: step 0: 3 wrong");
  CHECK(wrong_of([](RankResult& r) { r.damaged_guard_bytes = 1; }) ==
        "rank 1: 1 bytes beside buffers were written");
  CHECK(wrong_of([](RankResult& r) { r.operations_left = 2; }) ==
        "rank 1: 2 operations never completed");
  CHECK(wrong_of([](RankResult& r) { r.buffers_left = 2; }) == "rank 1: 2 packets leaked");
  CHECK(wrong_of([](RankResult& r) { r.unexpected_bytes_left = 2; }) ==
        "rank 1: 2 bytes of messages that nobody received");
  CHECK(wrong_of([](RankResult& r) { r.counters["messages_received"] = 11; }) ==
        "20 messages were sent and 21 received");
}

TEST_CASE("summary: a failed or missing rank makes the run incomplete, not wrong") {
  Run run;
  run.results[0].failure = RankFailure{ExitCode::peer_failed, "peer_timeout", 1, "rank 1 is gone"};
  run.results[0].operations_left = 5;
  Summary summary = summarize(run.options, run.schedule, run.results);
  CHECK_FALSE(summary.complete);
  CHECK_FALSE(summary.begun);  // no rank had
  CHECK(summary.wrong.empty());
  Run missing;
  missing.results.pop_back();
  missing.results[0].begun_ns = 1;
  summary = summarize(missing.options, missing.schedule, missing.results);
  CHECK_FALSE(summary.complete);
  CHECK(summary.begun);
  CHECK(summary.times.empty());
}

TEST_CASE("summary: of a run that is not complete it tells where the ranks were") {
  Run run;
  run.results[0].failure = RankFailure{ExitCode::interrupted, "", std::nullopt, "interrupted"};
  run.results[1].failure = run.results[0].failure;
  run.results[1].task_ns.resize(4);
  using Texts = std::vector<std::string>;
  CHECK(summarize(run.options, run.schedule, run.results).positions ==
        Texts{"rank 1: in step 2 of 3, collective 2 of 3 (all_reduce)", "rank 0: all steps done"});
  run.options.ranks = 4;
  run.results[0].task_ns.resize(4);
  const Summary summary = summarize(run.options, run.schedule, run.results);
  CHECK(summary.positions == Texts{"ranks 0, 1: in step 2 of 3, collective 2 of 3 (all_reduce)",
                                   "ranks 2, 3: no report"});
  const std::string text = to_text(summary, run.options);
  CHECK(text.starts_with("not complete"));
  CHECK(text.find("ranks 2, 3: no report\n") != std::string::npos);
  run.results[0].task_ns.clear();
  run.schedule.init = run.schedule.step;
  CHECK(summarize(run.options, run.schedule, run.results).positions.front() ==
        "rank 0: in the set-up or the first collective");
}

TEST_CASE("summary: the same NIC of all ranks is one row") {
  NicSample a;
  a.bytes_sent = 100;
  a.srtt_ns = 10;
  NicSample b = a;
  b.state = PathState::down;
  b.srtt_ns = 0;
  const std::vector<NicSample> first{a, a};
  const std::vector<NicSample> second{b, a};
  const std::vector<NicRow> rows = add_up_nics({&first, &second});
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].sum.bytes_sent == 200);
  CHECK(rows[0].sum.srtt_ns == 10);  // unknown values don't count
  CHECK(rows[0].states[static_cast<std::size_t>(PathState::up)] == 1);
  CHECK(rows[0].states[static_cast<std::size_t>(PathState::down)] == 1);
  CHECK(nic_table_row(0, rows[0], 1e9).find("1 UP, 1 DOWN") != std::string::npos);
}

TEST_CASE("summary: a row of NICs of several networks names them") {
  const auto row = [](const std::vector<std::string>& names) {
    NicRow made;
    made.names = names;
    return made;
  };
  CHECK(networks_text(0, row({"udp:127.1.0.1", "udp:127.1.1.1", "udp:127.1.2.1"})).empty());
  CHECK(networks_text(0, row({"udp:10.0.0.1", "udp:10.0.0.2"})).empty());
  CHECK(networks_text(0, row({"verbs:mlx5_0", "verbs:mlx5_0:2"})).empty());
  CHECK(networks_text(1, row({"udp:10.0.0.1", "udp:10.0.1.1", "udp:10.0.0.2"})) ==
        "NIC 1 is of several networks: 10.0.0.x at ranks 0, 2; 10.0.1.x at rank 1\n");
  CHECK(networks_text(0, row({"udp:fd00::1", "verbs:mlx5_0", ""})) ==
        "NIC 0 is of several networks: fd00::x at rank 0; verbs:mlx5_0 at rank 1;  at rank 2\n");
}

TEST_CASE("summary: JSON has the same figures") {
  const Run run;
  const Summary summary = summarize(run.options, run.schedule, run.results);
  const nlohmann::json json = to_json(summary, run.options, run.results, 1.5, 0);
  CHECK(json.at("exit_code") == 0);
  CHECK(json.at("wall_s") == 1.5);
  CHECK(json.at("collectives").at(0).at("n") == 6);
  CHECK(json.at("counters").at("messages_sent") == 20);
  CHECK(json.at("ranks").size() == 2);
}

TEST_CASE("summary: one-sided operations of all ranks, over the times of their tasks") {
  RunOptions options;
  options.ranks = 2;
  options.steps = 2;
  Workload workload;
  Phase phase;
  phase.operation = Operation::put;
  phase.bytes = 4000;
  workload.step.push_back(phase);
  phase.operation = Operation::all_reduce;  // its time is not that of one-sided operations
  workload.step.push_back(phase);
  const Schedule schedule = make_schedule(workload, 2, 1);
  std::vector<RankResult> results(2);
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    results[rank].rank = rank;
    results[rank].task_ns = {1'000'000, 5'000'000, 2'000'000 + rank * 1'000'000, 5'000'000};
    for (std::uint64_t i = 1; i <= 100; ++i) {
      results[rank].operations.at(OneSidedKind::write, When::before).add(i * 10 + rank);
    }
  }
  const Summary summary = summarize(options, schedule, results);
  REQUIRE(summary.operations.size() == 1);
  const OperationRow& row = summary.operations[0];
  CHECK(row.kind == OneSidedKind::write);
  CHECK(row.n == 200);
  CHECK(row.p50_ns == Approx(500).epsilon(0.04));
  CHECK(row.p99_ns == Approx(990).epsilon(0.04));
  CHECK(row.longest_ns == 1001);
  CHECK(row.per_s == Approx(200 / 4e-3));
  const std::string text = to_text(summary, options);
  CHECK(text.find("\noperation ") != std::string::npos);
  CHECK(text.find("\nwrite ") != std::string::npos);
  CHECK(text.find("50.00k/s") != std::string::npos);
  const nlohmann::json json = to_json(summary, options, results, 1, 0);
  CHECK(json.at("operations").at(0).at("kind") == "write");
  CHECK(json.at("operations").at(0).at("n") == 200);
}

TEST_CASE("summary: units") {
  CHECK(duration_text(1'500) == "1.5 us");
  CHECK(duration_text(1'500'000) == "1.50 ms");
  CHECK(duration_text(2'500'000'000) == "2.50 s");
  CHECK(bytes_text(1'500) == "1.5 kB");
  CHECK(bytes_text(1'500'000) == "1.5 MB");
  CHECK(bytes_text(1'500'000'000) == "1.50 GB");
}

}  // namespace
}  // namespace hawser::tool
