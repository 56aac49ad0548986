// SPDX-License-Identifier: Apache-2.0
// Which way a packet goes: the third of the three things in which baselines differ. A way is a NIC
// of the sender, whose counterpart of the receiver has the same number, and an entropy.
#pragma once

#include <cstdint>

#include "sim/fabric/instant.hpp"

namespace hawser::baseline {

struct Way {
  std::uint32_t nic = 0;
  std::uint16_t entropy = 0;
  friend bool operator==(const Way&, const Way&) = default;
};

class Spray {
 public:
  virtual ~Spray() = default;

  // Of the next packet.
  [[nodiscard]] virtual Way next() = 0;
  // An ack has come the way back, so long after its packet, which may be marked, was sent.
  virtual void on_ack(Way way, fabric::Span round_trip, bool is_marked) {
    static_cast<void>(way);
    static_cast<void>(round_trip);
    static_cast<void>(is_marked);
  }
  // The connection leaves the way on which it has failed for another NIC.
  virtual void move() {}
};

}  // namespace hawser::baseline
