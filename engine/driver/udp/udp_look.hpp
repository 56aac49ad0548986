// SPDX-License-Identifier: Apache-2.0
// Tells an endpoint's UDP NICs which of their queues to ask in a turn: those that Attention
// chooses, and those that poll finds readable. It also tells them when to check their addresses and
// to forget their routes, on news from UdpWatch.
//
// It follows addresses within a millisecond, and looks again after a second for an address that a
// NIC has lost. It follows routes within a tenth of a second. Routing daemons change thousands of
// them in a row, and each NIC then asks anew about each remote that it sends to.
#pragma once

#include <poll.h>

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/driver/udp/attention.hpp"
#include "engine/driver/udp/udp_nic.hpp"
#include "engine/driver/udp/udp_watch.hpp"

namespace hawser::engine {

class UdpLook {
 public:
  // Adds a NIC, which outlives this.
  void add(UdpNic& nic);
  [[nodiscard]] std::span<UdpNic* const> nics() const { return nics_; }
  // Readable when a turn must check addresses; -1: never. News of routes wakes nobody, since it
  // matters only to those who send.
  [[nodiscard]] int descriptor() const { return addresses_ ? addresses_->descriptor() : -1; }

  // Call it before each turn. It is `now`, and the protocol wanted a turn at `due`.
  void begin_turn(proto::Time now, proto::Time due) {
    now_ = now;
    due_ = due;
    is_decided_ = false;
    if (addresses_ && now_ >= follow_at_) follow_host();
  }
  // Called once a turn, with the first question about a queue. Answers to the last turn's packets
  // are sent before that question, so they don't wait for the look.
  void decide() {
    if (!std::exchange(is_decided_, true)) decide_anew();
  }

 private:
  void follow_host();
  void follow_addresses();
  void decide_anew();
  // Makes the turn ask the readable queues among those that Attention did not choose.
  void look();

  proto::Time now_{};
  proto::Time due_{};
  bool is_decided_ = false;
  std::optional<UdpWatch> addresses_;  // set if a NIC has a device
  std::optional<UdpWatch> routes_;     // the same
  proto::Time follow_at_{};
  proto::Time follow_routes_at_{};
  Attention attention_;
  std::vector<UdpNic*> nics_;
  std::vector<proto::Time> retry_at_;  // by NIC; counts while the NIC is lost
  std::vector<pollfd> watched_;        // two per NIC, by queue
};

}  // namespace hawser::engine
