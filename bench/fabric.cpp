// SPDX-License-Identifier: Apache-2.0
// Question: how fast does a fabric of thousands of hosts carry packets, and which event queue is
// the faster one under it? Metric: packet-hops per CPU-second (a hop is a packet over a link) and
// resident memory of a permutation, in which each host sends a message to one other. Packets carry
// 4086 bytes of payload, each is acknowledged, 128 are in flight, sprayed over 128 entropies.
// Leaf-spine at 400 Gb/s, 1 us a cable. The bench first measures what it costs to take an event and
// make another while many are pending. It does so for the heap of the storms (sim/core) and for the
// wheel of the fabric. Equal seeds give equal digests. Runtime: 40 s and 400 MB. `--short`: 128
// hosts, for the tests.
#include <fmt/core.h>
#include <sys/resource.h>

#include <ctime>
#include <string_view>
#include <vector>

#include "proto/base/random.hpp"
#include "sim/core/event_queue.hpp"
#include "sim/traffic/packet_flows.hpp"

namespace {

using namespace hawser;

double cpu_seconds() {
  timespec now{};
  (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double resident_mb() {
  rusage usage{};
  (void)getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024 / 1e6;
}

// How far ahead an event lies: mostly a cable's latency and some queueing, now and then a timer.
std::int64_t distance_ps(proto::Random& random) {
  constexpr std::int64_t kCable = 1'000'000;
  constexpr std::uint64_t kQueue = 1'000'000;
  constexpr std::uint64_t kTimer = 100'000'000;
  const std::uint64_t dice = random.below(100);
  return kCable + static_cast<std::int64_t>(random.below(dice == 0 ? kTimer : kQueue));
}

struct HeapActor final : sim::Actor {
  sim::EventQueue events{proto::Time{}};
  proto::Random random{1};
  std::uint64_t sum = 0;
  void put(std::uint64_t what) { events.at(proto::Time{now() + distance_ps(random)}, *this, what); }
  [[nodiscard]] std::int64_t now() const { return events.now().ns; }
  void on_event(proto::Time, std::uint64_t what) override {
    sum = sum * 31 + what;
    put(what);
  }
};

struct WheelActor final : fabric::Actor {
  fabric::EventWheel events;
  proto::Random random{1};
  std::uint64_t sum = 0;
  void put(std::uint32_t what) {
    events.at(fabric::Instant{events.now().ps + distance_ps(random)}, *this, what);
  }
  void on_event(fabric::Instant, std::uint32_t what) override {
    sum = sum * 31 + what;
    put(what);
  }
};

template <typename Holder>
double nanoseconds_per_event(std::uint32_t pending, std::uint64_t steps, std::uint64_t& sum) {
  Holder holder;
  for (std::uint32_t i = 0; i < pending; ++i) holder.put(i);
  for (std::uint64_t i = 0; i < pending; ++i) holder.events.step();
  const double begin = cpu_seconds();
  for (std::uint64_t i = 0; i < steps; ++i) holder.events.step();
  const double end = cpu_seconds();
  sum = holder.sum;
  return (end - begin) * 1e9 / static_cast<double>(steps);
}

bool compare_queues(bool brief) {
  fmt::print("{:>10} {:>12} {:>12}   ns an event\n", "pending", "heap", "wheel");
  for (const std::uint32_t pending : {1000u, 30'000u, brief ? 60'000u : 1'000'000u}) {
    const std::uint64_t steps = brief ? 100'000 : 3'000'000;
    std::uint64_t heap_sum = 0;
    std::uint64_t wheel_sum = 0;
    const double heap = nanoseconds_per_event<HeapActor>(pending, steps, heap_sum);
    const double wheel = nanoseconds_per_event<WheelActor>(pending, steps, wheel_sum);
    fmt::print("{:>10} {:>12.0f} {:>12.0f}\n", pending, heap, wheel);
    if (heap_sum != wheel_sum) {
      fmt::print("the two queues disagree about the order\n");
      return false;
    }
  }
  return true;
}

struct Run {
  std::uint32_t leaves;
  std::uint32_t ports;  // of a leaf; also the number of spines
  std::uint64_t bytes;
};

bool permutation(const Run& run, bool adaptive, bool brief) {
  fabric::EventWheel events;
  fabric::Shape shape = fabric::leaf_spine(run.leaves, run.ports, run.ports, 400 * fabric::kGigabit,
                                           fabric::microseconds(1));
  shape.adaptive = adaptive;
  const double begin = cpu_seconds();
  fabric::Network network(events, shape, 1);
  fabric::PacketFlows flows(events, network, {});
  const std::uint32_t hosts = network.wiring().ports();
  std::vector<std::uint32_t> to(hosts);
  for (std::uint32_t i = 0; i < hosts; ++i) to[i] = i;
  proto::Random random(1);
  // Sattolo's algorithm: one cycle, so that no host sends to itself.
  for (std::uint32_t i = hosts - 1; i > 0; --i) std::swap(to[i], to[random.below(i)]);
  for (std::uint32_t i = 0; i < hosts; ++i) {
    fabric::Flow flow;
    flow.from = i;
    flow.to = to[i];
    flow.bytes = run.bytes;
    flow.window = 128;
    flow.entropies = 128;
    (void)flows.add(flow);
  }
  events.run();
  const double seconds = cpu_seconds() - begin;
  fabric::Instant last;
  std::uint64_t finished = 0;
  for (std::uint32_t i = 0; i < hosts; ++i) {
    if (flows.state(i).finished == fabric::kNever) continue;
    ++finished;
    last = std::max(last, flows.state(i).finished);
  }
  fmt::print("{:>6} hosts {:>8} bytes {}: {:.2f} M hops, {:.2f} CPU-s, {:.2f} M hops/CPU-s, ",
             hosts, run.bytes, adaptive ? "adaptive" : "by hash ",
             static_cast<double>(network.hops()) / 1e6, seconds,
             static_cast<double>(network.hops()) / 1e6 / seconds);
  fmt::print(
      "{:.0f} MB, {} packets at once, {} dropped, {} of {} flows done, last at {:.1f} us, "
      "digest {:016x}\n",
      resident_mb(), network.packets().made(), network.totals().dropped, finished, hosts,
      static_cast<double>(last.ps) / 1e6, network.digest());
  return finished == hosts || !brief;
}

}  // namespace

int main(int argc, char** argv) {
  const bool brief = argc > 1 && std::string_view(argv[1]) == "--short";
  if (!compare_queues(brief)) return 1;
  std::vector<Run> runs = {{16, 8, 200'000}};
  if (!brief) runs = {{2, 8, 32'000'000}, {32, 32, 2'000'000}, {128, 64, 1'000'000}};
  for (const Run& run : runs) {
    for (const bool adaptive : {false, true}) {
      if (!permutation(run, adaptive, brief)) return 1;
    }
  }
  return 0;
}
