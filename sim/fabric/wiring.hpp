// SPDX-License-Identifier: Apache-2.0
// The numbers of ports, switches and links of a shape: which link leads from where to where.
//
// Ports are numbered by host, then by NIC. Switches come tree by tree in each tier: leaves, then
// tier 1, then cores. Links: first each port's cable to its leaf. Then come for each switch its
// links downwards, in the order of what is below, and its links upwards. The links among which a
// switch chooses are therefore a range. A cable is two links, one each way: back() of each other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/fabric/shape.hpp"

namespace hawser::fabric {

struct Switch {
  std::uint32_t tier = 0;
  std::uint32_t first_down = 0;  // links
  std::uint32_t first_up = 0;
  std::uint32_t up = 0;           // how many
  std::uint32_t bundle = 1;       // links to each one below
  std::uint32_t first_below = 0;  // the first leaf (tier 1) or pod (tier 2) under it
  std::uint32_t group = 0;        // tier 1: its pod; tier 2: its tree
};

struct PortPlace {
  std::uint32_t tree = 0;
  std::uint32_t leaf = 0;   // the switch
  std::uint32_t pod = 0;    // among those of all trees
  std::uint32_t place = 0;  // at the leaf
};

class Wiring {
 public:
  // Throws InputError, as measure() does.
  explicit Wiring(const Shape& shape);

  [[nodiscard]] std::uint32_t ports() const { return static_cast<std::uint32_t>(places_.size()); }
  [[nodiscard]] std::uint32_t port(std::uint32_t host, std::uint32_t nic) const {
    return host * nics_ + nic;
  }
  [[nodiscard]] const PortPlace& place(std::uint32_t port) const { return places_[port]; }

  [[nodiscard]] std::uint32_t switches() const {
    return static_cast<std::uint32_t>(switches_.size());
  }
  [[nodiscard]] const Switch& at(std::uint32_t number) const { return switches_[number]; }
  // The n-th switch of a tier, over all trees; and how many there are.
  [[nodiscard]] std::uint32_t in_tier(std::uint32_t tier, std::uint32_t n) const {
    return first_of_tier_[tier] + n;
  }
  [[nodiscard]] std::uint32_t count_of_tier(std::uint32_t tier) const {
    return first_of_tier_[tier + 1] - first_of_tier_[tier];
  }

  [[nodiscard]] std::uint32_t links() const { return static_cast<std::uint32_t>(ends_.size()); }
  [[nodiscard]] std::uint32_t from_port(std::uint32_t port) const { return port; }
  [[nodiscard]] std::uint32_t to_port(std::uint32_t port) const { return back_[port]; }
  [[nodiscard]] std::uint32_t up(std::uint32_t of_switch, std::uint32_t n) const {
    return switches_[of_switch].first_up + n;
  }
  [[nodiscard]] std::uint32_t down(std::uint32_t of_switch, std::uint32_t n) const {
    return switches_[of_switch].first_down + n;
  }
  [[nodiscard]] std::uint32_t back(std::uint32_t link) const { return back_[link]; }
  // All links that begin or end at a switch.
  [[nodiscard]] std::vector<std::uint32_t> of_switch(std::uint32_t number) const;
  // The port or switch at the link's end; see ends_at_port.
  [[nodiscard]] std::uint32_t end(std::uint32_t link) const { return ends_[link] & ~kPort; }
  [[nodiscard]] bool ends_at_port(std::uint32_t link) const { return (ends_[link] & kPort) != 0; }
  [[nodiscard]] const LinkSettings& settings(std::uint32_t link) const { return settings_[link]; }
  // "host 3 nic 0 -> leaf 0", "leaf 0 -> spine 5".
  [[nodiscard]] std::string name(std::uint32_t link) const;

  // A bit in the network's number of a link's end: the end is a port.
  static constexpr std::uint32_t kPort = 1u << 31;

 private:
  void place_ports(const Shape& shape);
  void make_switches(const Shape& shape);
  void make_links(const Shape& shape);
  void join(std::uint32_t lower, std::uint32_t n, std::uint32_t upper, std::uint32_t m);
  [[nodiscard]] std::string end_name(std::uint32_t link) const;

  TreeSize size_;
  std::uint32_t nics_ = 1;
  std::uint32_t tiers_ = 1;
  std::vector<PortPlace> places_;
  std::vector<Switch> switches_;
  std::vector<std::uint32_t> first_of_tier_;  // one more at the end
  std::vector<std::uint32_t> ends_;
  std::vector<std::uint32_t> back_;
  std::vector<LinkSettings> settings_;
};

}  // namespace hawser::fabric
