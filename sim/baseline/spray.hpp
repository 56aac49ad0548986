// SPDX-License-Identifier: Apache-2.0
// Which way a packet goes: the third of the three things in which baselines differ. A way is a NIC
// of the sender and an entropy. The receiver's NIC is the one with the same number.
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

  // The way that the next packet takes.
  [[nodiscard]] virtual Way next() = 0;
  // An ack has come back by this way, `round_trip` after its packet was sent. The packet may be
  // marked.
  virtual void on_ack(Way way, fabric::Span round_trip, bool is_marked) {
    static_cast<void>(way);
    static_cast<void>(round_trip);
    static_cast<void>(is_marked);
  }
  // The connection has failed on its NIC and leaves for another one.
  virtual void move() {}
};

}  // namespace hawser::baseline
