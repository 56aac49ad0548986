// SPDX-License-Identifier: Apache-2.0
// Tells people, by the log, what has become of the ways of UDP NICs: at most a line a NIC and
// second. The counters datagrams_fragmented, segmentation_refused and segmentation_resumed have
// all.
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
  // Once a turn.
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
