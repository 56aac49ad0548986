// SPDX-License-Identifier: Apache-2.0
// The effect of faults on the NICs of hosts, by arithmetic: which NICs are dead, and what the
// cables of the affected hosts can still carry. Verdicts of the protocol are compared with this
// truth.
//
// A NIC is dead while its port's cable is down or loses everything, in either direction, or while
// its leaf is down. One working direction is useless to a host that can't be answered over the NIC.
// Faults further away don't affect a NIC.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/fabric/faults.hpp"

namespace hawser::experiment {

enum class Way : std::uint8_t { from_hosts, to_hosts };

class Struck {
 public:
  // `faults` as faults_of() makes them, in any order.
  Struck(std::vector<fabric::Fault> faults, const fabric::Wiring& wiring);

  // All ports of each host of which a NIC was ever dead or slow.
  [[nodiscard]] const std::vector<std::uint32_t>& ports() const { return ports_; }
  // The rate of these ports together at that time.
  [[nodiscard]] std::uint64_t bits_per_s(Way way, fabric::Instant at) const;
  // The bytes that they could have carried in that time.
  [[nodiscard]] std::uint64_t bytes_between(Way way, fabric::Instant from,
                                            fabric::Instant to) const;

  // The ports that were ever dead, in ascending order; and whether one was dead at some time until
  // `at`.
  [[nodiscard]] const std::vector<std::uint32_t>& dead() const { return dead_; }
  [[nodiscard]] bool was_dead(std::uint32_t port, fabric::Instant at) const;

 private:
  // The rates from `at` on, until the next entry.
  struct Rates {
    fabric::Instant at;
    std::uint64_t from_hosts = 0;
    std::uint64_t to_hosts = 0;
  };
  struct Death {
    std::uint32_t port = 0;
    fabric::Instant at;
  };

  std::vector<std::uint32_t> ports_;
  std::vector<std::uint32_t> dead_;
  std::vector<Rates> rates_;
  std::vector<Death> deaths_;
};

}  // namespace hawser::experiment
