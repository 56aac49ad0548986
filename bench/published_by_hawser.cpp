// SPDX-License-Identifier: Apache-2.0
// Question: what does the shipped protocol do with the Ultra Ethernet Consortium's published
// matrices, beside htsim's senders? Metric: when the first and the last sender know that all has
// arrived, from the moment that sessions are up. The retransmitted and dropped packets stand beside
// it. Packets carry 4096 bytes of payload and 90 bytes of overhead besides the protocol's headers.
// The fabric has 128 entropies, 1 us a cable, queues of 1 MB, and marks from 20% to 80% of a round
// trip's bytes.
// Nothing but limits differs from the defaults. Runtime: 40 s, `--large` adds 8192 hosts and 60 s;
// `--short`: the small ones, for the tests. HAWSER_WORKLOADS names the folder with the samples.
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "sim/core/pool.hpp"
#include "sim/experiment/matrix_run.hpp"
#include "sim/experiment/traffic.hpp"
#include "sim/input/connections.hpp"
#include "sim/input/topology.hpp"

namespace {

using namespace hawser;
using fabric::Instant;

struct Case {
  const char* name;
  const char* matrix;
  const char* topology;  // null: the fat tree of `radix` at 100 Gb/s, htsim's own default
  std::uint32_t radix;
  std::uint32_t round_trip_bytes;
  bool adaptive;
  bool is_group;    // hosts know that the messages to one receiver come together
  double htsim_us;  // the last flow's end; 0: none is published
};

std::string content(const std::string& folder, const char* name) {
  std::ifstream file(folder + "/htsim_cm/" + name, std::ios::binary);
  if (!file) throw fabric::InputError(std::string(name) + " is not in " + folder + "/htsim_cm");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

double cpu_seconds() {
  timespec now{};
  (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void run(const std::string& folder, const Case& which) {
  fabric::Shape shape =
      which.topology != nullptr
          ? fabric::read_topology(which.topology, content(folder, which.topology))
          : fabric::fat_tree(which.radix, 100 * fabric::kGigabit, fabric::microseconds(1));
  fabric::ConnectionMatrix matrix =
      fabric::read_connections(which.matrix, content(folder, which.matrix));
  if (which.is_group) experiment::group_by_receiver(matrix);
  shape.adaptive = which.adaptive;
  shape.queue.capacity = 1 << 20;
  shape.queue.mark_min = which.round_trip_bytes / 5;
  shape.queue.mark_max = which.round_trip_bytes / 5 * 4;
  const double begin = cpu_seconds();
  fabric::EventWheel events;
  fabric::Network network(events, shape, 1, 128);
  sim::Pool pool(4096);
  experiment::ViewSlots slots(experiment::NicConfig{}.max_datagram_bytes);
  experiment::MatrixRun run({events, network, pool, slots}, matrix, {});
  constexpr fabric::Span kMost = fabric::microseconds(1'000'000);
  const bool all = run.connect(kMost) && run.run(kMost);
  Instant first = fabric::kNever;
  Instant last;
  for (std::uint32_t i = 0; i < matrix.connections.size(); ++i) {
    first = std::min(first, run.times(i).ended);
    last = std::max(last, run.times(i).ended);
  }
  const experiment::CarrierTotals totals = run.totals();
  const auto us = [&](Instant at) {
    return at == fabric::kNever
               ? std::string("never")
               : fmt::format("{:.1f}", static_cast<double>((at - run.begun()).ps) / 1e6);
  };
  fmt::print("{:<30} first {:>8}  last {:>8}", which.name, us(first), us(last));
  if (which.htsim_us > 0) fmt::print("  htsim {:>8.1f}", which.htsim_us);
  const fabric::LinkCounters links = network.totals();
  fmt::print("  {} of {} resent, {} dropped, {} marked, {:.1f} CPU-s, digest {:016x}{}\n",
             totals.retransmitted, totals.data_packets, links.dropped, links.marked,
             cpu_seconds() - begin, network.digest(), all ? "" : ": NOT ALL ENDED");
}

constexpr std::uint32_t kThreeTiers = 178'000;  // 14.3 us at 100 Gb/s
constexpr std::uint32_t kTwoTiers = 419'000;    // 8.4 us at 400 Gb/s
constexpr const char* kPermutation = "perm_1024n_1024c_0u_2000000b.cm";
constexpr const char* kTree = "fat_tree_1024.topo";
constexpr const char* kSpines = "leaf_spine_8192_400g.topo";
constexpr Case kSmall[] = {
    {"one flow", "one.cm", nullptr, 4, kThreeTiers, false, false, 176.2},
    {"incast of 15", "incast.cm", nullptr, 4, kThreeTiers, false, false, 2478.5},
    {"incast of 15, a group", "incast.cm", nullptr, 4, kThreeTiers, false, true, 2478.5},
    {"permutation of 16", "perm_16n_16c_2MB.cm", nullptr, 4, kThreeTiers, false, false, 0},
};
constexpr Case kAll[] = {
    {"incast of 127", "incast_128.cm", nullptr, 8, kThreeTiers, false, false, 21029.3},
    {"incast of 127, a group", "incast_128.cm", nullptr, 8, kThreeTiers, false, true, 21029.3},
    {"incast of 1023, 100 KB", "incast_1024_100K.cm", kTree, 0, kThreeTiers, false, false, 10556},
    {"incast of 1023, a group", "incast_1024_100K.cm", kTree, 0, kThreeTiers, false, true, 10556},
    {"permutation of 1024", kPermutation, kTree, 0, kThreeTiers, false, false, 200.5},
    {"permutation of 1024, adaptive", kPermutation, kTree, 0, kThreeTiers, true, false, 0},
};
constexpr Case kLarge[] = {
    {"permutation of 8192", "perm_8192n_8192c_1MB.cm", kSpines, 0, kTwoTiers, false, false, 35.4},
};

}  // namespace

int main(int argc, char** argv) {
  const std::string_view how = argc > 1 ? argv[1] : "";
  const char* const folder = std::getenv("HAWSER_WORKLOADS");
  if (folder == nullptr) {
    fmt::print("nothing was run: HAWSER_WORKLOADS names no folder of samples\n");
    return how == "--short" ? 0 : 1;
  }
  try {
    for (const Case& one : kSmall) run(folder, one);
    if (how == "--short") return 0;
    for (const Case& one : kAll) run(folder, one);
    if (how != "--large") return 0;
    for (const Case& one : kLarge) run(folder, one);
  } catch (const fabric::InputError& error) {
    fmt::print("{}\n", error.what());
    return 1;
  }
  return 0;
}
