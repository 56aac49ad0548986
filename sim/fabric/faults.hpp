// SPDX-License-Identifier: Apache-2.0
// Faults at given times. A flap is a cable that goes down and up again. A dead NIC link is the
// cable of a port that stays down. A one-way fault is one of a link without the link back.
//
// A port hears at once when its cable goes dark or has light again (Receiver::on_cable). A silent
// fault is told to nobody, as when a NIC's firmware or a switch's forwarding hangs.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/fabric/network.hpp"

namespace hawser::fabric {

struct Fault {
  enum class Kind : std::uint8_t {
    link_down,
    link_up,
    link_rate,
    link_loss,
    switch_down,
    switch_up
  };

  Instant at{};
  Kind kind = Kind::link_down;
  std::uint32_t target = 0;      // a link, or a switch with all its links
  bool both_ways = true;         // of the link's cable
  std::uint64_t bits_per_s = 0;  // link_rate
  double probability = 0;        // link_loss
  bool silent = false;           // link_down, switch_down
};

// Schedules its faults when it is constructed; it lives as long as the events.
class Faults final : public Actor {
 public:
  // Throws InputError for a link or switch that the fabric doesn't have, for impossible rates and
  // probabilities, and for a target that goes up more often than down.
  Faults(EventWheel& events, Network& network, std::vector<Fault> faults);

  void on_event(Instant now, std::uint32_t number) override;

 private:
  void strike(const Fault& fault, std::uint32_t link);

  Network& network_;
  std::vector<Fault> faults_;
};

}  // namespace hawser::fabric
