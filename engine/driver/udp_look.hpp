// Tells an endpoint's UDP NICs which of their queues to ask in a turn: what Attention decides, and
// poll finds readable.
#pragma once

#include <poll.h>

#include <span>
#include <utility>
#include <vector>

#include "engine/driver/attention.hpp"
#include "engine/driver/udp_nic.hpp"

namespace hawser::engine {

class UdpLook {
 public:
  // The NIC outlives this.
  void add(UdpNic& nic);
  [[nodiscard]] std::span<UdpNic* const> nics() const { return nics_; }

  // Before each turn: it is `now`, and the protocol wanted a turn at `due`.
  void begin_turn(proto::Time now, proto::Time due) {
    now_ = now;
    due_ = due;
    is_decided_ = false;
  }
  // Once a turn, with the first question about a queue: an answer to the last turn goes out before
  // that, and must not wait for the look.
  void decide() {
    if (!std::exchange(is_decided_, true)) decide_anew();
  }

 private:
  void decide_anew();
  // Has those queues asked that are readable, of all that would not be.
  void look();

  proto::Time now_{};
  proto::Time due_{};
  bool is_decided_ = false;
  Attention attention_;
  std::vector<UdpNic*> nics_;
  std::vector<pollfd> watched_;  // by queue, two a NIC
};

}  // namespace hawser::engine
