// Tells an endpoint's UDP NICs which of their queues to ask in a turn: what Attention decides, and
// poll finds readable.
#pragma once

#include <poll.h>

#include <vector>

#include "engine/driver/attention.hpp"
#include "engine/driver/udp_nic.hpp"

namespace hawser::engine {

class UdpLook {
 public:
  // The NIC outlives this.
  void add(UdpNic& nic);

  // Before each turn: it is `now`, and the protocol wanted a turn at `due`.
  void begin_turn(proto::Time now, proto::Time due);

 private:
  // Has those queues asked that are readable, of all that would not be.
  void look();

  Attention attention_;
  std::vector<UdpNic*> nics_;
  std::vector<pollfd> watched_;  // by queue, two a NIC
};

}  // namespace hawser::engine
