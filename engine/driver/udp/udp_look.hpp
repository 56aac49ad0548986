// SPDX-License-Identifier: Apache-2.0
// Tells an endpoint's UDP NICs which of their queues to ask in a turn: what Attention decides, and
// poll finds readable. And when to look at their addresses: what UdpWatch hears.
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
  // The NIC outlives this.
  void add(UdpNic& nic);
  [[nodiscard]] std::span<UdpNic* const> nics() const { return nics_; }
  // Readable when a turn is to look at addresses; -1: never.
  [[nodiscard]] int descriptor() const { return watch_ ? watch_->descriptor() : -1; }

  // Before each turn: it is `now`, and the protocol wanted a turn at `due`.
  void begin_turn(proto::Time now, proto::Time due) {
    now_ = now;
    due_ = due;
    is_decided_ = false;
    if (watch_ && now_ >= follow_at_) follow_addresses();
  }
  // Once a turn, with the first question about a queue: an answer to the last turn goes out before
  // that, and must not wait for the look.
  void decide() {
    if (!std::exchange(is_decided_, true)) decide_anew();
  }

 private:
  void follow_addresses();
  void decide_anew();
  // Has those queues asked that are readable, of all that would not be.
  void look();

  proto::Time now_{};
  proto::Time due_{};
  bool is_decided_ = false;
  std::optional<UdpWatch> watch_;  // if a NIC is a device
  proto::Time follow_at_{};
  proto::Time retry_at_{};
  Attention attention_;
  std::vector<UdpNic*> nics_;
  std::vector<pollfd> watched_;  // by queue, two a NIC
};

}  // namespace hawser::engine
