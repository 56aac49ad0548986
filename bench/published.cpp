// SPDX-License-Identifier: Apache-2.0
// Question: what do senders with a fixed window get out of the Ultra Ethernet Consortium's
// published matrices and fabrics, beside htsim's senders? The answer tells which part of a
// published figure is due to the fabric and which to the protocol. Metric: when the first and the
// last sender have their last acknowledgement, and when a receiver's cable could have carried all
// at the earliest. Packets have 4150 bytes on the wire, 4086 of them payload. Acknowledgements have
// 64 bytes and go first. 1 us a cable, no marks, queues of 1 MB, in incasts as long as need be. A
// window is given in round trips of the longest path. Nothing is retransmitted, so a run that loses
// a packet never ends. Runtime: 40 s. `--short`: the small ones, for the tests. HAWSER_WORKLOADS
// names the folder with the samples.
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "sim/input/connections.hpp"
#include "sim/input/topology.hpp"
#include "sim/traffic/packet_flows.hpp"

namespace {

using namespace hawser;
using fabric::Instant;
using fabric::Span;

struct Case {
  const char* name;
  const char* matrix;
  const char* topology;  // null: the fat tree of `radix` at 100 Gb/s, htsim's own default
  std::uint32_t radix;
  std::uint16_t entropies;
  bool adaptive;
  bool is_incast;
  double htsim_us;  // the last flow's end; 0: none is published
};

// Properties of the fabric's longest path, from its shape alone.
struct Way {
  std::uint32_t cables;
  Span there;  // of a full packet
  Span back;   // of an ack
  fabric::Pace pace;
};

std::string content(const std::string& folder, const char* name) {
  std::ifstream file(folder + "/htsim_cm/" + name, std::ios::binary);
  if (!file) throw fabric::InputError(std::string(name) + " is not in " + folder + "/htsim_cm");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Way longest(const fabric::Shape& shape, const fabric::PacketSizes& sizes) {
  Way way{static_cast<std::uint32_t>(2 * shape.tiers.size()),
          {},
          {},
          fabric::Pace::of(shape.tiers[0].bits_per_s)};
  for (const fabric::Tier& tier : shape.tiers) {
    const fabric::Pace pace = fabric::Pace::of(tier.bits_per_s);
    way.there = way.there + (pace.time_of(sizes.most) + tier.cable_latency) * 2;
    way.back = way.back + (pace.time_of(sizes.ack) + tier.cable_latency) * 2;
  }
  return way;
}

// The earliest end for the busiest receiver's cable, from the moment that a neighbour's first
// packet can arrive.
double bound_us(const fabric::ConnectionMatrix& matrix, const fabric::PacketFlows& flows,
                const Way& way, Span cable) {
  std::vector<std::uint64_t> bytes(matrix.nodes);
  for (std::uint32_t i = 0; i < matrix.connections.size(); ++i) {
    const std::uint32_t packets = flows.state(i).packets;
    bytes[matrix.connections[i].to] +=
        std::uint64_t{packets - 1} * flows.wire_bytes(i, 0) + flows.wire_bytes(i, packets - 1);
  }
  const Span first = way.pace.time_of(4150) + cable;
  const Span last = first + way.pace.time_of(*std::ranges::max_element(bytes)) + cable +
                    (way.pace.time_of(64) + cable) * 2;
  return static_cast<double>(last.ps) / 1e6;
}

void run(const std::string& folder, const Case& which, double round_trips) {
  fabric::Shape shape =
      which.topology != nullptr
          ? fabric::read_topology(which.topology, content(folder, which.topology))
          : fabric::fat_tree(which.radix, 100 * fabric::kGigabit, fabric::microseconds(1));
  const fabric::ConnectionMatrix matrix =
      fabric::read_connections(which.matrix, content(folder, which.matrix));
  shape.adaptive = which.adaptive;
  if (which.is_incast) shape.queue.capacity = fabric::kUnlimited;
  fabric::EventWheel events;
  fabric::Network network(events, shape, 1);
  const fabric::PacketSizes sizes;
  fabric::PacketFlows flows(events, network, sizes);
  const Way way = longest(shape, sizes);
  const auto window =
      static_cast<std::uint32_t>(round_trips * static_cast<double>((way.there + way.back).ps) /
                                     static_cast<double>(way.pace.time_of(sizes.most).ps) +
                                 1);
  for (const fabric::Connection& one : matrix.connections) {
    fabric::Flow flow;
    flow.from = one.from;
    flow.to = one.to;
    flow.bytes = one.bytes;
    flow.start = one.start;
    flow.window = window;
    flow.entropies = which.entropies;
    (void)flows.add(flow);
  }
  events.run();
  Instant first = fabric::kNever;
  Instant last;
  for (std::uint32_t i = 0; i < flows.count(); ++i) {
    first = std::min(first, flows.state(i).finished);
    last = std::max(last, flows.state(i).finished);
  }
  const auto us = [](Instant at) {
    if (at == fabric::kNever) return std::string("never");
    return fmt::format("{:.1f}", static_cast<double>(at.ps) / 1e6);
  };
  fmt::print("{:<31} {:>4} x RTT = {:>3} packets  first {:>8}  last {:>8}  bound {:>8.1f}",
             which.name, round_trips, window, us(first), us(last),
             bound_us(matrix, flows, way, shape.tiers[0].cable_latency));
  if (which.htsim_us > 0) fmt::print("  htsim {:>8.1f}", which.htsim_us);
  fmt::print("  {} dropped, {:.1f} M hops, digest {:016x}\n", network.totals().dropped,
             static_cast<double>(network.hops()) / 1e6, network.digest());
}

constexpr Case kSmall[] = {
    {"one flow", "one.cm", nullptr, 4, 1, false, false, 176.2},
    {"incast of 15", "incast.cm", nullptr, 4, 1, false, true, 2478.5},
    {"permutation of 16", "perm_16n_16c_2MB.cm", nullptr, 4, 64, false, false, 0},
};
constexpr const char* kPermutation = "perm_1024n_1024c_0u_2000000b.cm";
constexpr const char* kLarge = "perm_8192n_8192c_1MB.cm";
constexpr Case kAll[] = {
    {"incast of 127", "incast_128.cm", nullptr, 8, 1, false, true, 21029.3},
    {"incast of 1023, 100 KB", "incast_1024_100K.cm", "fat_tree_1024.topo", 0, 1, false, true,
     10556},
    {"permutation of 1024, one path", kPermutation, "fat_tree_1024.topo", 0, 1, false, false,
     889.9},
    {"permutation of 1024, 128 paths", kPermutation, "fat_tree_1024.topo", 0, 128, false, false,
     212.8},
    {"permutation of 1024, 512 paths", kPermutation, "fat_tree_1024.topo", 0, 512, false, false,
     212.8},
    {"permutation of 1024, adaptive", kPermutation, "fat_tree_1024.topo", 0, 1, true, false, 0},
    {"permutation of 8192, 32 paths", kLarge, "leaf_spine_8192_400g.topo", 0, 32, false, false,
     38.7},
    {"permutation of 8192, 128 paths", kLarge, "leaf_spine_8192_400g.topo", 0, 128, false, false,
     35.4},
    {"permutation of 8192, adaptive", kLarge, "leaf_spine_8192_400g.topo", 0, 1, true, false, 0},
};

}  // namespace

int main(int argc, char** argv) {
  const bool brief = argc > 1 && std::string_view(argv[1]) == "--short";
  const char* const folder = std::getenv("HAWSER_WORKLOADS");
  if (folder == nullptr) {
    fmt::print("nothing was run: HAWSER_WORKLOADS names no folder of samples\n");
    return brief ? 0 : 1;
  }
  try {
    for (const Case& one : kSmall) run(folder, one, 1);
    if (brief) return 0;
    for (const Case& one : kAll) {
      run(folder, one, 1);
      if (one.entropies > 1 || one.adaptive) run(folder, one, 1.5);
    }
  } catch (const fabric::InputError& error) {
    fmt::print("{}\n", error.what());
    return 1;
  }
  return 0;
}
