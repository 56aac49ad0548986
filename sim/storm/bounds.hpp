// SPDX-License-Identifier: Apache-2.0
// The cost that a storm may cause its hosts. At any time an endpoint stays within its tunables.
// After all faults are over it retransmits little: as much as twice what was missing, what was in
// flight at the healing, and what full queues dropped. The protocol does not take loss alone for
// congestion, but lets a round of loss at most halve a window. All rounds of loss together may
// therefore drop twice what the windows held.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/storm/oracle.hpp"
#include "sim/storm/plan.hpp"
#include "sim/storm/world.hpp"

namespace hawser::sim {

class Bounds {
 public:
  Bounds(const Plan& plan, World& world, Oracle& oracle)
      : plan_(plan), world_(world), oracle_(oracle) {}

  // Checks the present state; called now and then.
  void look();
  // Called when all faults are over.
  void healed() { at_healing_ = traffic(); }
  // Called when everything has completed.
  void judge();

 private:
  struct Traffic {
    std::vector<std::uint64_t> lives;  // of the hosts; 0: its process has left
    std::uint64_t bytes_again = 0;
    std::uint64_t bytes_placed = 0;
    std::uint64_t bytes_under_way = 0;
    std::uint64_t bytes_dropped = 0;  // by queues of the fabric
    std::uint64_t window_bytes = 0;
  };
  [[nodiscard]] Traffic traffic() const;
  [[nodiscard]] std::uint64_t first_windows(std::uint32_t host) const;

  const Plan& plan_;
  World& world_;
  Oracle& oracle_;
  std::optional<Traffic> at_healing_;
};

}  // namespace hawser::sim
