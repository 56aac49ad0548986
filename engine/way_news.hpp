// SPDX-License-Identifier: Apache-2.0
// Logs changes of the routes of UDP NICs, at most one line per NIC and second. The counters
// datagrams_fragmented, segmentation_refused and segmentation_resumed count all of them.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "engine/driver/udp/udp_nic.hpp"
#include "proto/base/time.hpp"

namespace hawser::engine {

[[nodiscard]] std::string words_for(std::string_view nic, const UdpWayNews& news);

class WayNews {
 public:
  // Call it once per turn.
  void tell(proto::Time now, std::span<UdpNic* const> nics) {
    if (now < next_) return;
    tell_now(nics);
    next_ = now + proto::milliseconds(1000);
  }

 private:
  static void tell_now(std::span<UdpNic* const> nics);

  proto::Time next_{};
};

}  // namespace hawser::engine
