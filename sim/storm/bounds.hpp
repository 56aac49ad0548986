// SPDX-License-Identifier: Apache-2.0
// What a storm may cost its hosts: what an endpoint holds stays within the tunables at any time,
// and once nothing is at fault any more it sends little for the second time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/storm/oracle.hpp"
#include "sim/storm/world.hpp"

namespace hawser::sim {

class Bounds {
 public:
  Bounds(const Plan& plan, World& world, Oracle& oracle)
      : plan_(plan), world_(world), oracle_(oracle) {}

  // Now and then.
  void look();
  // When nothing is at fault any more.
  void healed() { at_healing_ = traffic(); }
  // When everything has completed.
  void judge();

 private:
  struct Traffic {
    std::vector<std::uint64_t> lives;  // of the hosts; 0: it has left
    std::uint64_t bytes_again = 0;
    std::uint64_t bytes_placed = 0;
    std::uint64_t bytes_under_way = 0;
  };
  [[nodiscard]] Traffic traffic() const;

  const Plan& plan_;
  World& world_;
  Oracle& oracle_;
  std::optional<Traffic> at_healing_;
};

}  // namespace hawser::sim
