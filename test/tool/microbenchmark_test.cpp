// SPDX-License-Identifier: Apache-2.0
// Runs of single collectives: their options, their workload, and their table.
#include "tool/workload/microbenchmark.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tool/error.hpp"
#include "tool/run/microbenchmark_table.hpp"

namespace hawser::tool {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("microbenchmark: sizes") {
  using Sizes = std::vector<std::uint64_t>;
  CHECK(parse_sizes("8") == Sizes{8});
  CHECK(parse_sizes("8:1K") == Sizes{8, 32, 128, 512});
  CHECK(parse_sizes("8:8") == Sizes{8});
  CHECK(parse_sizes("1K:5000:2") == Sizes{1024, 2048, 4096});
  CHECK(parse_sizes("3M:1G:1000") == Sizes{std::uint64_t{3} << 20});
  CHECK(parse_sizes("1024G") == Sizes{std::uint64_t{1} << 40});
  CHECK(parse_sizes("1:1024G:1099511627776") == Sizes{1, std::uint64_t{1} << 40});
  for (const char* const wrong :
       {"", "0", "8:4", "8:", ":8", "8:64:1", "8:64:0", "8:64:4:4", "-8", "8T", "K", "1025G", "8 ",
        "99999999999999999999", "17592186044416M", "17179869185G", "8:64:x"}) {
    INFO(wrong);
    CHECK_THROWS_WITH(parse_sizes(wrong), Contains("expected FROM[:TO[:FACTOR]]"));
  }
}

TEST_CASE("microbenchmark: lists of collectives and types") {
  CHECK(parse_collectives("all").size() == 9);
  CHECK(parse_collectives("scatter,all_reduce,scatter") ==
        std::vector{Operation::scatter, Operation::all_reduce});
  CHECK_THROWS_WITH(parse_collectives("all_reduce,"), Contains("'' is none of all, all_reduce, "));
  CHECK_THROWS_WITH(parse_collectives("put"), Contains("--collective put: 'put' is none of all"));
  CHECK(parse_types("all").size() == coll::kDataTypes);
  CHECK(parse_types("bf16,f8e5m2") == std::vector{DataType::bf16, DataType::f8e5m2});
  CHECK_THROWS_WITH(parse_types("float"), Contains("--types float: 'float' is none of all, f32, "));
}

Microbenchmark benchmark_of(const char* collectives, const char* sizes, const char* types) {
  Microbenchmark benchmark;
  benchmark.collectives = parse_collectives(collectives);
  benchmark.sizes = parse_sizes(sizes);
  benchmark.types = parse_types(types);
  benchmark.iterations = 2;
  benchmark.warmup = 1;
  return benchmark;
}

TEST_CASE("microbenchmark: each size, type and place has its iterations in a row") {
  const Workload workload =
      microbenchmark_workload(benchmark_of("all_reduce,broadcast,barrier", "8:32", "f32,u8"), 3);
  std::vector<std::string> stages;
  for (std::size_t i = 0; i < workload.step.size(); i += 3) {
    stages.push_back(workload.step[i].stage);
    CHECK(workload.step[i + 2].stage == stages.back());
  }
  CHECK(stages == std::vector<std::string>{
                      "all_reduce of 8 bytes, f32", "all_reduce of 8 bytes, f32, in place",
                      "all_reduce of 32 bytes, f32", "all_reduce of 32 bytes, f32, in place",
                      "all_reduce of 8 bytes, u8", "all_reduce of 8 bytes, u8, in place",
                      "all_reduce of 32 bytes, u8", "all_reduce of 32 bytes, u8, in place",
                      "broadcast of 8 bytes, in place", "broadcast of 32 bytes, in place",
                      "barrier"});
}

TEST_CASE("microbenchmark: more rows and iterations than a rank can list are refused") {
  Microbenchmark benchmark = benchmark_of("all", "1:1024G:2", "all");
  CHECK(microbenchmark_workload(benchmark, 2).step.size() > 8000);
  benchmark.iterations = 1'000'000;
  CHECK_THROWS_WITH(microbenchmark_workload(benchmark, 2),
                    Contains("at most 1048576 are possible; fewer --iterations would fit"));
  benchmark = benchmark_of("broadcast", "8", "f32");
  benchmark.iterations = 1'000'000;
  CHECK(microbenchmark_workload(benchmark, 2).step.size() == benchmark.tasks_of_row());
}

TEST_CASE("microbenchmark: sizes that round to the same are one") {
  // Eight ranks have at least an element of 4 bytes each.
  const Workload workload =
      microbenchmark_workload(benchmark_of("reduce_scatter", "1:64:2", "f32"), 8);
  REQUIRE(workload.step.size() == 2 * 2 * 3);
  CHECK(workload.step.front().bytes == 32);
  CHECK(workload.step.back().bytes == 64);
}

// Two ranks that all-reduce 1000 bytes twice each way, after a warmup, and meet at barriers.
struct Run {
  RunOptions options;
  Schedule schedule;
  std::vector<RankResult> results;

  Run() {
    options.ranks = 2;
    options.steps = 1;
    options.microbenchmark = benchmark_of("all_reduce,barrier", "1000", "f32");
    schedule = make_schedule(workload_of(options), 2, 1);
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      RankResult result;
      result.rank = rank;
      // The warmup takes a second each, the iterations 10 and 20 us, or 30 and 40 at rank 1.
      for (std::size_t i = 0; i < schedule.step.size(); ++i) {
        result.task_ns.push_back(i % 3 == 0 ? 1'000'000'000 : (i % 3 + 2 * rank) * 10'000);
      }
      result.verified_times = result.task_ns.size();
      results.push_back(result);
    }
  }
  void repeat(int steps) {
    for (RankResult& result : results) {
      const std::vector<std::uint64_t> step = result.task_ns;
      for (int more = 1; more < steps; ++more) {
        result.task_ns.insert(result.task_ns.end(), step.begin(), step.end());
      }
      result.verified_times = result.task_ns.size();
    }
  }
  [[nodiscard]] std::vector<MicrobenchmarkRow> rows() const {
    return microbenchmark_rows(options, schedule, results);
  }
};

TEST_CASE("microbenchmark: the mean is that of all ranks and iterations, without the warmup") {
  const Run run;
  const auto rows = run.rows();
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].operation == Operation::all_reduce);
  CHECK(rows[0].bytes == 1000);
  for (const auto& figures : {rows[0].out_of_place, rows[0].in_place}) {
    REQUIRE(figures);
    CHECK(figures->n == 2);
    CHECK(figures->mean_ns == Approx(25'000));
    CHECK(figures->p50_ns == 30'000);  // of the slower rank
    CHECK(figures->longest_ns == 40'000);
    CHECK(figures->algorithm_bytes_per_s == Approx(1000 / 25e-6));
    CHECK(figures->bus_bytes_per_s == Approx(1000 / 25e-6));  // two ranks: a factor of 1
    CHECK(figures->wrong == 0);
  }
  CHECK(rows[1].operation == Operation::barrier);
  CHECK_FALSE(rows[1].out_of_place);
  REQUIRE(rows[1].in_place);
  CHECK(rows[1].in_place->mean_ns == Approx(25'000));
}

TEST_CASE("microbenchmark: what is wrong counts in its row, the warmup too") {
  Run run;
  run.results[0].wrong_of_task = {{0, 3}, {2, 4}};
  run.results[1].wrong_of_task = {{2, 10}, {4, 100}};
  const auto rows = run.rows();
  CHECK(rows[0].out_of_place->wrong == 17);
  CHECK(rows[0].in_place->wrong == 100);
  CHECK_FALSE(rows[1].in_place->wrong);  // a barrier has no bytes
  const std::string text = to_text(rows, false);
  CHECK_THAT(text, Contains("25.0   0.040   0.040     17       25.0   0.040   0.040    100\n"));
  const nlohmann::json json = to_json(rows);
  CHECK(json[0]["out_of_place"]["wrong"] == 17);
  CHECK(json[1]["out_of_place"].is_null());
}

TEST_CASE("microbenchmark: what is wrong in a later step counts there") {
  Run run;
  run.options.steps = 3;
  run.options.timed_faults = {parse_nic_fault(TimedFault::Kind::kill_nic, "--kill-nic", "0.1@1/3")};
  run.repeat(3);
  const std::uint64_t step = run.schedule.step.size();
  run.results[0].wrong_of_task = {{1, 3}, {step + 2, 4}, {2 * step + 1, 10}};
  const auto rows = run.rows();
  REQUIRE(rows.size() == 4);
  CHECK(rows[0].when == When::before);
  CHECK(rows[0].out_of_place->wrong == 3);
  CHECK(rows[1].when == When::during);
  CHECK(rows[1].out_of_place->wrong == 14);
}

TEST_CASE("microbenchmark: what a rank did before its restart has no part in the mean") {
  Run run;
  for (std::uint64_t& time : run.results[0].task_ns) time = 0;
  const auto rows = run.rows();
  CHECK(rows[0].out_of_place->n == 2);
  CHECK(rows[0].out_of_place->mean_ns == Approx(35'000));
}

TEST_CASE("microbenchmark: rows before, during and after the faults") {
  Run run;
  run.options.steps = 3;
  run.options.timed_faults = {
      parse_nic_fault(TimedFault::Kind::kill_nic, "--kill-nic", "0.1@1/3"),
      parse_nic_fault(TimedFault::Kind::revive_nic, "--revive-nic", "0.1@2/3")};
  run.repeat(3);
  const auto rows = run.rows();
  REQUIRE(rows.size() == 6);
  std::vector<When> whens;
  for (const MicrobenchmarkRow& row : rows) {
    whens.push_back(row.when);
    CHECK(row.in_place->n == 2);
  }
  CHECK(whens == std::vector{When::before, When::during, When::after, When::before, When::during,
                             When::after});
  CHECK_THAT(to_text(rows, true), Contains("all_reduce     f32    during"));
}

TEST_CASE("microbenchmark: of a run that is not complete, what all ranks have finished") {
  Run run;
  run.results[1].task_ns.resize(2);
  const auto rows = run.rows();
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].out_of_place->n == 1);
  CHECK_FALSE(rows[0].in_place);
  run.results[1].task_ns.clear();
  CHECK(run.rows().empty());
}

TEST_CASE("microbenchmark: what was not checked has no count of what is wrong") {
  Run run;
  run.results[1].verified_times = 4;
  const auto rows = run.rows();
  CHECK(rows[0].out_of_place->wrong == 0);
  CHECK_FALSE(rows[0].in_place->wrong);
  CHECK_THAT(to_text(rows, false),
             Contains("25.0   0.040   0.040      0       25.0   0.040   0.040      -\n"));
  CHECK(to_json(rows)[0]["in_place"]["wrong"].is_null());
}

TEST_CASE("microbenchmark: a part of the run with the warmup alone has no times") {
  Run run;
  run.options.microbenchmark->warmup = 3;
  run.options.microbenchmark->iterations = 0;
  CHECK_THAT(to_text(run.rows(), false), Contains("          -       -       -      0"));
}

}  // namespace
}  // namespace hawser::tool
