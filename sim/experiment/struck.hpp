// SPDX-License-Identifier: Apache-2.0
// What faults do to the NICs of hosts, by arithmetic: which of them are dead, and what the cables
// of the hosts that were struck can still carry. It is the truth that verdicts are held against.
//
// A NIC is dead while its port's cable is down, either way, or loses all, or while its leaf is
// down: who can't be answered over a NIC has no use of the other way. Faults further on strike no
// NIC.
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

  // All ports of hosts of which a NIC was ever struck, be it dead or slow.
  [[nodiscard]] const std::vector<std::uint32_t>& ports() const { return ports_; }
  // What these carry together at that time.
  [[nodiscard]] std::uint64_t bits_per_s(Way way, fabric::Instant at) const;
  // What they could have carried in that time.
  [[nodiscard]] std::uint64_t bytes_between(Way way, fabric::Instant from,
                                            fabric::Instant to) const;

  // Ports that were ever dead, in ascending order, and those that were dead at some time until
  // `at`.
  [[nodiscard]] const std::vector<std::uint32_t>& dead() const { return dead_; }
  [[nodiscard]] bool was_dead(std::uint32_t port, fabric::Instant at) const;

 private:
  // From `at` on, until the next one.
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
