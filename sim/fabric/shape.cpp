// SPDX-License-Identifier: Apache-2.0
#include "sim/fabric/shape.hpp"

#include <string>

namespace hawser::fabric {

namespace {

constexpr std::uint32_t kMostPorts = 1 << 20;
constexpr std::uint32_t kMostRadix = 4096;
constexpr Span kLongest = microseconds(1'000'000);
constexpr std::uint32_t kMostLeaves = 1 << 16;
constexpr std::uint64_t kMostLinks = 1 << 23;  // a million ports with three tiers have 6 million

void require(bool holds, const std::string& what) {
  if (!holds) throw ShapeError(ShapeError::kWhole, what);
}

std::string text(std::uint64_t n) { return std::to_string(n); }

void check_tier(const Shape& shape, std::size_t number) {
  const Tier& tier = shape.tiers[number];
  const auto need = [&](bool holds, const std::string& what) {
    if (!holds) throw ShapeError(number, "tier " + text(number) + ": " + what);
  };
  need(tier.down > 0 && tier.down <= kMostRadix,
       "a switch has 1 to " + text(kMostRadix) + " cables downwards, not " + text(tier.down));
  if (number + 1 == shape.tiers.size()) {
    need(tier.up == 0, "the highest tier has no cables upwards");
  } else {
    need(tier.up > 0 && tier.up <= kMostRadix,
         "a switch has 1 to " + text(kMostRadix) + " cables upwards, not " + text(tier.up));
  }
  need(tier.bits_per_s >= kSlowest && tier.bits_per_s <= kFastest, "a rate is 10 Mb/s to 10 Tb/s");
  for (const Span latency : {tier.cable_latency, tier.switch_latency}) {
    need(latency >= Span{} && latency <= kLongest, "a latency is 0 to 1 s");
  }
  need(tier.bundle > 0, "a bundle has at least 1 cable");
  need(number > 0 || tier.bundle == 1,
       "a port has one cable; a host with several cables has several NICs");
  if (number == 0) return;
  const std::uint32_t up = shape.tiers[number - 1].up;
  need(up % tier.bundle == 0, "bundles of " + text(tier.bundle) + " don't divide the " + text(up) +
                                  " cables upwards of a switch below");
}

void check_queue(const QueueSettings& queue) {
  require(queue.capacity > 0, "a queue holds at least 1 byte");
  require(queue.mark_min <= queue.mark_max,
          "packets are marked from mark_min on, and all of them from mark_max on: " +
              text(queue.mark_min) + " is more than " + text(queue.mark_max));
}

// Checks that a switch has enough downward cables for a bundle to each switch below.
void check_down(const Shape& shape, std::size_t number, std::uint32_t below, const char* what) {
  const Tier& tier = shape.tiers[number];
  const std::uint64_t needed = std::uint64_t{below} * tier.bundle;
  if (tier.down == needed) return;
  throw ShapeError(number, "tier " + text(number) + ": a switch has " + text(tier.down) +
                               " cables downwards, but there are " + text(below) + " " + what +
                               " and bundles of " + text(tier.bundle) + ": it needs " +
                               text(needed));
}

// A few large radices multiply to more links than any machine's memory holds.
void check_links(const Shape& shape, const TreeSize& size) {
  std::uint64_t cables = size.ports + std::uint64_t{size.leaves} * shape.tiers[0].up;
  if (shape.tiers.size() == 3) {
    cables += std::uint64_t{size.uppers_per_pod} * size.pods * shape.tiers[1].up;
  }
  const std::uint64_t links = 2 * cables * shape.trees();
  require(links <= kMostLinks, "a fabric has at most " + text(kMostLinks) + " links, not " +
                                   text(links) + ": two for each cable");
}

}  // namespace

TreeSize measure(const Shape& shape) {
  require(shape.hosts > 0 && shape.nics > 0, "a fabric has at least one host with one NIC");
  require(shape.hosts <= kMostPorts / shape.nics,
          "a fabric has at most " + text(kMostPorts) + " ports");
  const std::size_t tiers = shape.tiers.size();
  require(tiers >= 1 && tiers <= 3, "a fabric has 1 to 3 tiers, not " + text(tiers));
  for (std::size_t i = 0; i < tiers; ++i) check_tier(shape, i);
  check_queue(shape.queue);

  TreeSize size;
  size.ports = shape.ports() / shape.trees();
  const std::uint32_t down = shape.tiers[0].down;
  require(size.ports % down == 0, text(size.ports) + " ports don't fill leaves of " + text(down));
  require(shape.placement != Placement::rails || shape.hosts % down == 0,
          text(shape.hosts) + " hosts don't fill rails' leaves of " + text(down));
  size.leaves = size.ports / down;
  require(std::uint64_t{size.leaves} * shape.trees() <= kMostLeaves,
          "a fabric has at most " + text(kMostLeaves) + " leaves");
  require(tiers > 1 || size.leaves == 1, "a fabric of one tier is one switch; " + text(size.ports) +
                                             " ports need " + text(size.leaves) + " of " +
                                             text(down) + ", and so a second tier");
  if (tiers == 3) {
    require(shape.pod_ports > 0 && size.ports % shape.pod_ports == 0 && shape.pod_ports % down == 0,
            "pods of " + text(shape.pod_ports) + " ports don't divide " + text(size.ports) +
                " ports, or leaves of " + text(down) + " don't divide them");
    size.pods = size.ports / shape.pod_ports;
  }
  size.leaves_per_pod = size.leaves / size.pods;
  if (tiers >= 2) {
    size.uppers_per_pod = shape.tiers[0].up / shape.tiers[1].bundle;
    check_down(shape, 1, size.leaves_per_pod, "leaves below it");
  }
  if (tiers == 3) {
    size.cores = size.uppers_per_pod * (shape.tiers[1].up / shape.tiers[2].bundle);
    check_down(shape, 2, size.pods, "pods");
  }
  check_links(shape, size);
  return size;
}

Shape one_switch(std::uint32_t ports, std::uint64_t bits_per_s, Span cable_latency) {
  Shape shape;
  shape.hosts = ports;
  shape.tiers = {{.bits_per_s = bits_per_s, .cable_latency = cable_latency, .down = ports}};
  return shape;
}

Shape leaf_spine(std::uint32_t leaves, std::uint32_t ports_per_leaf, std::uint32_t spines,
                 std::uint64_t bits_per_s, Span cable_latency) {
  Shape shape = one_switch(ports_per_leaf, bits_per_s, cable_latency);
  shape.hosts = leaves * ports_per_leaf;
  shape.tiers[0].up = spines;
  shape.tiers.push_back({.bits_per_s = bits_per_s, .cable_latency = cable_latency, .down = leaves});
  return shape;
}

Shape fat_tree(std::uint32_t radix, std::uint64_t bits_per_s, Span cable_latency) {
  const std::uint32_t half = radix / 2;
  const Tier tier{
      .bits_per_s = bits_per_s, .cable_latency = cable_latency, .down = half, .up = half};
  Shape shape;
  shape.hosts = half * half * radix;
  shape.pod_ports = half * half;
  shape.tiers = {tier, tier, tier};
  shape.tiers[2].down = radix;
  shape.tiers[2].up = 0;
  return shape;
}

}  // namespace hawser::fabric
