// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <catch2/catch.hpp>
#include <cstdlib>

#include "hawser/nics.hpp"
#include "tool/error.hpp"
#include "tool/run/launcher.hpp"
#include "tool/run/memory.hpp"
#include "tool/run/options.hpp"
#include "tool/run/schedule.hpp"

namespace hawser::tool {
namespace {

RunOptions parse(const std::string& arguments, std::uint32_t joined_ranks = 0) {
  CLI::App app;
  RunOptionParser parser(app);
  app.parse(arguments);
  return parser.finish(joined_ranks);
}

TEST_CASE("options: defaults are the main job without faults") {
  const RunOptions options = parse("");
  CHECK(options.ranks == 8);
  CHECK(options.nics == 4);
  CHECK(options.workload == "gpt2");
  CHECK(options.steps == 6);
  CHECK(options.engine_faults(0).empty());
}

TEST_CASE("options: lasting faults become words of the fault grammar") {
  const RunOptions options = parse(
      "--loss 0.05 --duplicate 0.01 --reorder 0.05 --corrupt 0.001 --delay 1ms/2ms "
      "--burst-loss 0.001/0.2 --seed 7");
  CHECK(options.engine_faults(3) ==
        "seed=7000024,loss=0.05,burst-loss=0.001/0.2,duplicate=0.01,reorder=0.05,delay=1ms/2ms,"
        "corrupt=0.001");
}

TEST_CASE("options: what is wrong with a lasting fault is said of its option") {
  CHECK_THROWS_WITH(parse("--loss 1.5"), "--loss 1.5 is not a probability from 0 to 1");
  CHECK_THROWS_WITH(parse("--loss 0.1 --corrupt x"), "--corrupt x is not a number");
  CHECK_THROWS_WITH(parse("--reorder 0.1/9999"),
                    "--reorder 0.1/9999 has a depth that is not from 1 to 4096");
  CHECK_THROWS_WITH(parse("--loss 0.1,kill"), "--loss 0.1,kill: give one value");
}

TEST_CASE("options: ranks that are started again, and how often") {
  const RunOptions options = parse("--restart-rank 1@0.5 --restart-rank 3@1/3 --restart-rank 1@0");
  CHECK(options.restarts_of(1) == 2);
  CHECK(options.restarts_of(3) == 1);
  CHECK(options.restarts_of(0) == 0);
  CHECK(options.engine_faults(1).empty());  // no fault of a NIC
  CHECK_THROWS_AS(parse("--restart-rank 8@0.5"), InputError);
  CHECK_THROWS_AS(parse("--restart-rank 1.0@0.5"), InputError);
}

TEST_CASE("options: timed faults are sorted, checked, and open the fault layer") {
  const RunOptions options = parse("--revive-nic 2@2/3 --kill-nic 2@1/3 --kill-nic 1.3@0.5");
  REQUIRE(options.timed_faults.size() == 3);
  CHECK(options.timed_faults[0].kind == TimedFault::Kind::kill_nic);
  CHECK(options.timed_faults[2].kind == TimedFault::Kind::revive_nic);
  CHECK(options.engine_faults(0) == "seed=1000003");
  CHECK(parse("--kill-rank 1@0.5").engine_faults(0).empty());
  CHECK_THROWS_WITH(parse("--kill-nic 4@1/3"), "a fault names NIC 4; NICs go from 0 to 3");
  CHECK_THROWS_WITH(parse("--kill-rank 8@1/3"), "a fault names rank 8; ranks go from 0 to 7");
  CHECK(parse("--kill-rank 8@1/3", 16).ranks == 16);
}

TEST_CASE("options: tunables by name, in their range") {
  CHECK(parse("--tunable peer_timeout_ms=500 --tunable spin_us=0").tunables.peer_timeout_ms == 500);
  CHECK_THROWS_WITH(parse("--tunable peer_timeout_ms=1"),
                    "--tunable peer_timeout_ms=1: peer_timeout_ms takes 10 to 86400000 (ms)");
  CHECK_THROWS_AS(parse("--tunable peer_timeout_ms=1s"), InputError);
  CHECK_THROWS_AS(parse("--tunable peer_timeout=500"), InputError);
  CHECK_THROWS_AS(parse("--tunable peer_timeout_ms"), InputError);
}

TEST_CASE("options: more collectives than a run can time are refused before it starts") {
  Schedule schedule;
  schedule.step.resize(13);  // gpt2's
  CHECK_NOTHROW(check_length(parse("--steps 1000000"), schedule));
  schedule.step.resize(130);  // llama's
  CHECK_NOTHROW(check_length(parse("--steps 129055"), schedule));
  CHECK_THROWS_WITH(check_length(parse("--steps 1000000"), schedule),
                    "1000000 steps of 130 collectives make 130000000 collectives, but a run times "
                    "at most 16777216; --steps 129055 would fit");
  CHECK_THROWS_AS(check_length(parse("--steps 129056"), schedule), InputError);
}

TEST_CASE("options: more memory than there is is refused with what would fit") {
  using Catch::Contains;
  Schedule schedule;
  schedule.step.resize(1);
  schedule.step[0].elements = 250'000'000;  // 1 GB
  const RunOptions options = parse("--ranks 2");
  CHECK_NOTHROW(check_memory(options, schedule, 2, {}));
  CHECK_NOTHROW(check_memory(options, schedule, 2, {3'000'000'000, 1'500'000'000}));
  CHECK_THROWS_WITH(check_memory(options, schedule, 2, {1'500'000'000, kUnknownMemory}),
                    "2 ranks need 2.19 GB of memory (1.10 GB each), 1.50 GB are available; --scale "
                    "2 would fit");
  CHECK_THROWS_WITH(check_memory(options, schedule, 2, {100'000'000, kUnknownMemory}),
                    Contains("100.0 MB are available; fewer --ranks would fit"));
  // Limits count what an engine reserves as well.
  CHECK_THROWS_WITH(check_memory(options, schedule, 2, {kUnknownMemory, 1'200'000'000}),
                    Contains("leave it 1.20 GB; raise them, or --scale 2 would fit"));
  CHECK_THROWS_WITH(check_memory(options, schedule, 2, {kUnknownMemory, 100'000'000}),
                    Catch::EndsWith("leave it 100.0 MB; raise them"));
  // The scale is one that both allow.
  CHECK_THROWS_WITH(check_memory(options, schedule, 2, {600'000'000, 1'200'000'000}),
                    Contains("leave it 1.20 GB; raise them, or --scale 5 would fit"));
  const RunOptions single = parse("--ranks 2 --collective broadcast --sizes 1G");
  CHECK_THROWS_WITH(check_memory(single, schedule, 2, {1'500'000'000, kUnknownMemory}),
                    Contains("are available; --sizes up to 536870912 bytes would fit"));
}

TEST_CASE("options: single collectives stand for a workload, and run once") {
  const RunOptions usual = parse("--collective all_reduce");
  REQUIRE(usual.microbenchmark);
  CHECK(usual.steps == 1);
  CHECK(usual.microbenchmark->sizes.front() == 8);
  CHECK(usual.microbenchmark->types == std::vector{DataType::f32});
  CHECK(usual.microbenchmark->tasks_of_row() == 25);
  CHECK(workload_of(usual).step.size() == 11 * 2 * 25);
  CHECK(usual.name_of_workload() == "all_reduce of 8 to 8388608 bytes");

  const RunOptions given =
      parse("--collective gather --sizes 1K --types all --iterations 3 --warmup 0 --steps 4");
  CHECK(given.steps == 4);
  CHECK(workload_of(given).step.size() == 2 * 3);
  CHECK_THROWS_AS(parse("--collective all --workload gpt2"), CLI::ParseError);
  CHECK_THROWS_AS(parse("--collective all --scale 2"), CLI::ParseError);
  CHECK_THROWS_AS(parse("--collective ,"), InputError);
  CHECK_THROWS_AS(parse("--sizes 8"), CLI::ParseError);
  CHECK_THROWS_AS(parse("--collective all --iterations 0"), CLI::ParseError);
  CHECK_THROWS_AS(parse("--collective put"), InputError);
  CHECK_FALSE(parse("").microbenchmark);
}

TEST_CASE("options: own NICs") {
  const RunOptions options = parse("--nic udp:127.0.0.1 --nic udp:127.0.0.2");
  CHECK(options.nics == 2);
  CHECK(options.nic_notes.empty());
  CHECK_THROWS_WITH(parse("--nic verbs --nic udp:127.0.0.1"),
                    "--nic verbs stands for all RDMA ports: leave the other --nic out");
  CHECK_THROWS_AS(parse("--ranks 0"), CLI::ParseError);
  CHECK_THROWS_AS(parse("--nics 17"), CLI::ParseError);
}

TEST_CASE("options: NICs by a list, in any of its places") {
  const std::vector<std::string> loopback{"udp:127.0.0.1"};
  CHECK(parse("--nic if:lo").nic_addresses == loopback);
  CHECK(parse("--nics if:lo").nic_addresses == loopback);
  CHECK(parse("--nics net:127.0.0.0/8 --ranks 2").nics == 1);
  CHECK(parse("--nic udp:127.0.0.2 --nic if:lo").nic_addresses ==
        std::vector<std::string>{"udp:127.0.0.2", "udp:127.0.0.1"});
  CHECK(parse("--nic udp:127.0.0.2 --nic udp:127.0.0.3,udp:127.0.0.4").nics == 3);
  CHECK_THROWS_AS(parse("--nic if:no-such-interface"), NicChoiceError);
  CHECK_THROWS_WITH(parse("--nics if:lo --nic udp:127.0.0.2"),
                    "--nics if:lo and --nic: put all NICs into one list");
}

TEST_CASE("options: HAWSER_NICS stands for a --nic that is not there") {
  ::setenv("HAWSER_NICS", "udp:127.0.0.5,udp:127.0.0.6", 1);
  CHECK(parse("").nics == 2);
  CHECK(parse("--nics 1").nic_addresses == std::vector<std::string>{"udp:127.0.0.5"});
  CHECK(parse("--nic udp:127.0.0.7").nic_addresses == std::vector<std::string>{"udp:127.0.0.7"});
  CHECK(parse("--nics if:lo").nic_addresses == std::vector<std::string>{"udp:127.0.0.1"});
  ::setenv("HAWSER_NICS", "", 1);
  CHECK(parse("").nic_addresses.empty());
  ::unsetenv("HAWSER_NICS");
}

}  // namespace
}  // namespace hawser::tool
