// SPDX-License-Identifier: Apache-2.0
// Faults at given times. A flap is a cable that goes down and up again; a NIC whose link is dead is
// a cable of a port that stays down; a one-way fault is one of a link without its way back.
//
// A port whose cable goes dark, or has light again, hears of it at once (Receiver::on_cable); of a
// silent fault nobody is told, as when a NIC's firmware or a switch's forwarding hangs.
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

// Schedules its faults when it is made; it lives as long as the events.
class Faults final : public Actor {
 public:
  // Throws InputError for what the fabric has not, for rates and probabilities that can't be, and
  // for what is put up more often than down.
  Faults(EventWheel& events, Network& network, std::vector<Fault> faults);

  void on_event(Instant now, std::uint32_t number) override;

 private:
  void strike(const Fault& fault, std::uint32_t link);

  Network& network_;
  std::vector<Fault> faults_;
};

}  // namespace hawser::fabric
