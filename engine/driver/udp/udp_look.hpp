// SPDX-License-Identifier: Apache-2.0
// Tells an endpoint's UDP NICs which of their queues to ask in a turn: those that Attention
// chooses, and those that poll finds readable. It also tells them when to check their addresses, on
// news from UdpWatch.
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
  // Readable when a turn must check addresses; -1: never.
  [[nodiscard]] int descriptor() const { return watch_ ? watch_->descriptor() : -1; }

  // Call it before each turn. It is `now`, and the protocol wanted a turn at `due`.
  void begin_turn(proto::Time now, proto::Time due) {
    now_ = now;
    due_ = due;
    is_decided_ = false;
    if (watch_ && now_ >= follow_at_) follow_addresses();
  }
  // Called once a turn, with the first question about a queue. Answers to the last turn's packets
  // are sent before that question, so they don't wait for the look.
  void decide() {
    if (!std::exchange(is_decided_, true)) decide_anew();
  }

 private:
  void follow_addresses();
  void decide_anew();
  // Makes the turn ask the readable queues among those that Attention did not choose.
  void look();

  proto::Time now_{};
  proto::Time due_{};
  bool is_decided_ = false;
  std::optional<UdpWatch> watch_;  // set if a NIC has a device
  proto::Time follow_at_{};
  proto::Time retry_at_{};
  Attention attention_;
  std::vector<UdpNic*> nics_;
  std::vector<pollfd> watched_;  // two per NIC, by queue
};

}  // namespace hawser::engine
