// SPDX-License-Identifier: Apache-2.0
// An endpoint that has nothing but statistics, for tests of code that reads them.
#pragma once

#include <algorithm>
#include <map>
#include <vector>

#include "test/support/endpoint_double.hpp"

namespace hawser::tool {

class Figures final : public test::EndpointDouble {
 public:
  EndpointStats now{};
  Address blob{};
  std::map<PeerId, PeerStats> peers;
  std::vector<Event> events;

  const Address& address() const noexcept override { return blob; }
  EndpointStats stats() const override { return now; }
  std::vector<NicStats> nic_stats() const override {
    NicStats nic;
    nic.name = "udp:127.0.0.1";
    return {nic};
  }
  Status peer_stats(PeerId peer, PeerStats& stats) const override {
    const auto found = peers.find(peer);
    if (found == peers.end()) return Status::unknown_peer;
    stats = found->second;
    return Status::ok;
  }
  std::size_t poll_events(std::span<Event> out) override {
    const std::size_t count = std::min(out.size(), events.size());
    std::copy_n(events.begin(), count, out.begin());
    events.erase(events.begin(), events.begin() + static_cast<std::ptrdiff_t>(count));
    return count;
  }
};

}  // namespace hawser::tool
