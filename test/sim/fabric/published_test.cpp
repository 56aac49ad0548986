// SPDX-License-Identifier: Apache-2.0
// Published matrices on published fabrics, with fixed windows. The tests compare them with hand
// calculation, and with htsim where its senders don't matter.
#include "sim/input/connections.hpp"
#include "sim/input/topology.hpp"
#include "test/sim/fabric/samples.hpp"
#include "test/sim/fabric/scene.hpp"

namespace hawser::fabric {
namespace {

struct Ends {
  double first_us = 1e300;
  double last_us = 0;
  std::uint64_t busiest = 0;  // bytes on the wire to one receiver
};

Ends run(Shape shape, const ConnectionMatrix& all, std::uint32_t window, std::uint16_t entropies) {
  shape.queue.capacity = kUnlimited;
  Scene scene(shape);
  for (const Connection& one : all.connections) {
    (void)scene.flows.add({.from = one.from,
                           .to = one.to,
                           .bytes = one.bytes,
                           .start = one.start,
                           .window = window,
                           .entropies = entropies});
  }
  scene.run();
  Ends ends;
  std::vector<std::uint64_t> bytes(all.nodes);
  for (std::uint32_t flow = 0; flow < scene.flows.count(); ++flow) {
    const FlowState& state = scene.flows.state(flow);
    REQUIRE(state.finished != kNever);
    const double end = static_cast<double>(state.finished.ps) * 1e-6;
    ends.first_us = std::min(ends.first_us, end);
    ends.last_us = std::max(ends.last_us, end);
    bytes[all.connections[flow].to] += std::uint64_t{state.packets - 1} * kSizes.most +
                                       scene.flows.wire_bytes(flow, state.packets - 1);
  }
  ends.busiest = *std::ranges::max_element(bytes);
  return ends;
}

// A receiver's cable is never idle from a neighbour's first packet on. The last acknowledgement's
// cables come on top: two if it goes to a neighbour, six if it goes far.
TEST_CASE("published__incasts_take_the_time_of_their_bytes") {
  if (!have_samples()) return;
  constexpr std::uint32_t kWindow = 43;  // a round trip
  struct Incast {
    const char* name;
    Shape shape;
    std::uint64_t bytes;
  };
  const std::uint64_t two_megabytes = 489 * 4150 + 1946 + 64;
  for (const Incast& one :
       {Incast{"incast.cm", fat_tree(4, 100 * kGigabit, microseconds(1)), 15 * two_megabytes},
        Incast{"incast_1024_100K.cm", topology("fat_tree_1024.topo"),
               1023 * std::uint64_t{24 * 4150 + 1936 + 64}}}) {
    INFO(one.name);
    const Ends ends = run(one.shape, matrix("htsim_cm", one.name), kWindow, 1);
    CHECK(ends.busiest == one.bytes);
    const double carried = 0.332 + 2 + static_cast<double>(one.bytes) * 80e-6;
    CHECK(ends.last_us > carried + 2);
    CHECK(ends.last_us < carried + 6.1);
  }
}

// The first flows to end are undisturbed neighbours: 167.6 us in htsim. No flow ends before that.
// With as many paths as packets all end within 4% of the 212.8 us that htsim's oblivious senders
// need.
TEST_CASE("published__a_permutation_of_1024", "[long]") {
  if (!have_samples()) return;
  const ConnectionMatrix all = matrix("htsim_cm", "perm_1024n_1024c_0u_2000000b.cm");
  const Ends ends = run(topology("fat_tree_1024.topo"), all, 64, 512);
  CHECK(ends.busiest == 489 * 4150 + 1946 + 64);
  const double alone = 490 * 0.332 + 2010 * 80e-6 + 2 + 2 * (1 + 64 * 80e-6);
  CHECK(alone == Approx(167.6).epsilon(0.01));
  CHECK(ends.first_us >= alone);
  CHECK(ends.first_us == Approx(167.6).epsilon(0.015));
  CHECK(ends.last_us == Approx(212.8).epsilon(0.04));
}

}  // namespace
}  // namespace hawser::fabric
