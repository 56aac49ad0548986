// SPDX-License-Identifier: Apache-2.0
#include "tool/run/monitor.hpp"

#include <catch2/catch.hpp>

#include "test/tool/figures.hpp"

namespace hawser::tool {
namespace {

class Sink final : public MessageSink {
 public:
  std::vector<std::string> notes;
  std::vector<double> progress;
  void send(const RankMessage& message) override {
    if (message.note) notes.push_back(*message.note);
    if (message.progress) progress.push_back(message.progress->done);
  }
};

constexpr std::uint64_t kMs = 1'000'000;

struct Bench {
  RunOptions options;
  Figures endpoint;
  Sink sink;
  std::vector<std::string> injected;
  PathLog paths{endpoint};
  std::unique_ptr<Monitor> monitor;

  explicit Bench(std::vector<TimedFault> faults = {}, std::uint32_t rank = 0,
                 std::uint32_t life = 0) {
    options.timed_faults = std::move(faults);
    monitor = std::make_unique<Monitor>(
        options, rank, life,
        [this](std::size_t nic, std::string_view words) {
          injected.push_back(std::to_string(nic) + " " + std::string(words));
          return Status::ok;
        },
        endpoint, paths, sink);
  }
  void arrive_and_tick(std::uint64_t bytes, std::uint64_t now) {
    endpoint.now.data_bytes_received += bytes;
    monitor->tick(now);
  }
};

TEST_CASE("monitor: the longest time without a byte or a completion, and how much was absence") {
  Bench bench;
  bench.monitor->begin_task(1000 * kMs, 0, 0.5, 100);
  bench.arrive_and_tick(1, 1002 * kMs);
  for (std::uint64_t ms = 1003; ms <= 1009; ++ms) bench.arrive_and_tick(0, ms * kMs);
  bench.arrive_and_tick(1, 1010 * kMs);  // 8 ms without a byte
  bench.arrive_and_tick(0, 1016 * kMs);  // the process was away
  bench.endpoint.now.messages_sent = 1;
  bench.arrive_and_tick(0, 1017 * kMs);  // a completion ends a stall too: 7 ms
  CHECK(bench.monitor->stalls()[0].ns == 8 * kMs);
  CHECK(bench.monitor->stalls()[0].away_ns == 0);
  bench.monitor->end_task(1030 * kMs);  // 13 ms
  CHECK(bench.monitor->stalls()[0].ns == 13 * kMs);
  bench.monitor->tick(5000 * kMs);  // outside a task nothing can stall
  CHECK(bench.monitor->stalls()[0].ns == 13 * kMs);
  bench.monitor->begin_task(6000 * kMs, 0.5, 1, 100);
  bench.arrive_and_tick(0, 6015 * kMs);
  bench.arrive_and_tick(1, 6020 * kMs);
  CHECK(bench.monitor->stalls()[0].ns == 20 * kMs);
  CHECK(bench.monitor->stalls()[0].away_ns == 15 * kMs);
  CHECK(bench.monitor->stalls()[0].at == 0.5);
}

TEST_CASE("monitor: stalls are kept apart by the window of the faults") {
  using Kind = TimedFault::Kind;
  Bench bench({parse_nic_fault(Kind::kill_nic, "", "2@0.25"),
               parse_nic_fault(Kind::revive_nic, "", "2@0.75")});
  const std::pair<double, double> tasks[] = {{0, 0.25}, {0.25, 0.75}, {0.75, 1}};
  std::uint64_t now = kMs;
  for (std::uint64_t i = 0; i < 3; ++i) {
    bench.monitor->begin_task(now, tasks[i].first, tasks[i].second, 100);
    now += (i + 1) * kMs;
    bench.monitor->end_task(now);
  }
  for (std::uint64_t i = 0; i < 3; ++i) CHECK(bench.monitor->stalls()[i].ns == (i + 1) * kMs);
}

TEST_CASE("monitor: faults happen when the replay gets there") {
  using Kind = TimedFault::Kind;
  Bench bench({parse_nic_fault(Kind::kill_nic, "", "2@0.25"),
               parse_nic_fault(Kind::kill_nic, "", "1.3@0.3"),  // of another rank
               parse_nic_fault(Kind::degrade_nic, "", "0.1@0.375:1M"),
               parse_nic_fault(Kind::revive_nic, "", "2@0.5:event")});
  bench.monitor->begin_task(kMs, 0, 0.25, 100);
  bench.arrive_and_tick(200, 2 * kMs);  // bytes beyond the expected ones belong to this task
  bench.monitor->end_task(3 * kMs);
  CHECK(bench.injected.empty());
  bench.monitor->begin_task(4 * kMs, 0.25, 0.5, 100);
  REQUIRE(bench.injected.size() == 1);
  CHECK(bench.injected[0] == "2 kill");
  bench.arrive_and_tick(49, 5 * kMs);
  CHECK(bench.injected.size() == 1);
  bench.arrive_and_tick(2, 6 * kMs);  // beyond half of the task
  REQUIRE(bench.injected.size() == 2);
  CHECK(bench.injected[1] == "1 tx.rate=1000000,rx.rate=1000000");
  bench.arrive_and_tick(49, 7 * kMs);
  bench.monitor->end_task(8 * kMs);
  CHECK(bench.injected.size() == 2);
  bench.monitor->begin_task(9 * kMs, 0.5, 1, 100);
  REQUIRE(bench.injected.size() == 3);
  CHECK(bench.injected[2].rfind("2 revive:event", 0) == 0);
  CHECK(bench.sink.notes.size() == 3);
}

TEST_CASE("monitor: what is due in a task happens in it, and not in the barrier behind it") {
  Bench bench({parse_nic_fault(TimedFault::Kind::kill_nic, "", "2@0.49")});
  bench.monitor->begin_task(1 * kMs, 0, 0.5, 100);
  bench.arrive_and_tick(50, 2 * kMs);
  CHECK(bench.injected.empty());
  bench.monitor->end_task(3 * kMs);  // the expected number of bytes was only a guess
  CHECK(bench.injected.size() == 1);
}

TEST_CASE("monitor: a process that was started again repeats the faults of its NICs only") {
  // The restart ended the first process. This one would end here too if it repeated that fault.
  Bench bench({parse_nic_fault(TimedFault::Kind::kill_nic, "", "2@0.1"),
               parse_rank_fault(TimedFault::Kind::restart_rank, "", "3@0.2")},
              3, 1);
  bench.monitor->begin_task(1 * kMs, 0.5, 1, 100);
  CHECK(bench.injected.size() == 1);
  CHECK(bench.monitor->injected().size() == 1);
}

TEST_CASE("monitor: progress is told now and then") {
  Bench bench;
  bench.monitor->begin_task(1000 * kMs, 0.5, 1, 100);
  bench.arrive_and_tick(50, 1001 * kMs);
  bench.arrive_and_tick(10, 1002 * kMs);
  bench.arrive_and_tick(30, 1300 * kMs);
  REQUIRE(bench.sink.progress.size() == 2);
  CHECK(bench.sink.progress[0] == 0.75);
  CHECK(bench.sink.progress[1] == Approx(0.95));
}

}  // namespace
}  // namespace hawser::tool
