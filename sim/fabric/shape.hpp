// SPDX-License-Identifier: Apache-2.0
// The structure of a fabric: trees of one to three tiers of switches (Clos networks). It also says
// which NIC of which host is plugged in where.
//
//   tier 2          cores: one for each cable between a pod's tier 1 and above
//                     |
//   tier 1          spines, or the upper switches of a pod
//                     |
//   tier 0          leaves
//                     |
//                   ports, a NIC each
//
// A shape of two tiers is a leaf-spine fabric, one of a single tier a single switch.
// Oversubscription follows from the radices and rates.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/fabric/input_error.hpp"
#include "sim/fabric/link.hpp"

namespace hawser::fabric {

struct Tier {
  // The rate of the cables below this tier, both ways.
  std::uint64_t bits_per_s = 100 * kGigabit;
  Span cable_latency = nanoseconds(500);
  Span switch_latency{};         // of this tier's switches, for each packet
  std::uint32_t down = 1;        // cables of a switch to the tier below
  std::uint32_t up = 0;          // cables to the tier above; 0 in the highest tier
  std::uint32_t bundle = 1;      // cables between a switch of this tier and each one below it
  std::uint32_t queue_down = 0;  // bytes; 0: Shape::queue.capacity
  std::uint32_t queue_up = 0;
};

// Where NIC i of a host is plugged in.
enum class Placement : std::uint8_t {
  together,  // at the same leaf as the host's others
  rails,     // at rail i's leaf, one for each `down` hosts; all rails meet above the leaves
  planes,    // in tree i, which has no cable to any other
};

struct Shape {
  std::uint32_t hosts = 2;
  std::uint32_t nics = 1;  // of a host
  Placement placement = Placement::together;
  std::uint32_t pod_ports = 0;  // below one switch of tier 1, if there are three tiers
  std::vector<Tier> tiers;
  QueueSettings queue;    // of switches. A NIC's own queue is the host's: unlimited, without marks
  bool adaptive = false;  // each packet takes its shortest queue, not the way of its hash
  // Switches tell queues apart only in steps of this many bytes (at the rate of a port). With exact
  // comparison, flows that send in step would each find the queue of their own last choice
  // emptiest, and would go on colliding with the same flows further on.
  std::uint32_t adaptive_step = 50'000;

  [[nodiscard]] std::uint32_t ports() const { return hosts * nics; }
  [[nodiscard]] std::uint32_t trees() const { return placement == Placement::planes ? nics : 1; }
};

// All numbers that follow from a shape, for one tree.
struct TreeSize {
  std::uint32_t ports = 0;
  std::uint32_t leaves = 0;
  std::uint32_t pods = 1;
  std::uint32_t leaves_per_pod = 0;
  std::uint32_t uppers_per_pod = 0;  // switches of tier 1
  std::uint32_t cores = 0;
};

// Throws ShapeError if no fabric of this shape can exist; it says which numbers don't fit, and what
// would.
[[nodiscard]] TreeSize measure(const Shape& shape);

// A single switch; all cables are alike.
[[nodiscard]] Shape one_switch(std::uint32_t ports, std::uint64_t bits_per_s, Span cable_latency);
// A leaf has `spines` upward cables, one to each spine.
[[nodiscard]] Shape leaf_spine(std::uint32_t leaves, std::uint32_t ports_per_leaf,
                               std::uint32_t spines, std::uint64_t bits_per_s, Span cable_latency);
// Three tiers of switches with `radix` ports, half of them upwards: radix^3 / 4 ports.
[[nodiscard]] Shape fat_tree(std::uint32_t radix, std::uint64_t bits_per_s, Span cable_latency);

}  // namespace hawser::fabric
