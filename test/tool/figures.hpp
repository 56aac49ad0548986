// SPDX-License-Identifier: Apache-2.0
// An endpoint that has nothing but statistics, for tests of code that reads them.
#pragma once

#include <algorithm>
#include <map>
#include <vector>

#include "hawser/engine.hpp"

namespace hawser::tool {

class Figures final : public Endpoint {
 public:
  EndpointStats now{};
  Address blob{};
  std::map<PeerId, PeerStats> peers;
  std::vector<Event> events;

  const Address& address() const noexcept override { return blob; }
  Status connect(std::span<const std::byte>, PeerId&) override { return Status::unsupported; }
  Status send(PeerId, std::uint16_t, std::uint64_t, const void*, std::uint64_t, const SendOptions&,
              OperationId&) override {
    return Status::unsupported;
  }
  Status receive(PeerId, std::uint16_t, std::uint64_t, std::uint64_t, void*, std::uint64_t,
                 const ReceiveOptions&, OperationId&) override {
    return Status::unsupported;
  }
  Status probe(PeerId, std::uint16_t, std::uint64_t, std::uint64_t, Envelope&) override {
    return Status::again;
  }
  Status cancel(OperationId) override { return Status::unsupported; }
  std::size_t poll(std::span<Completion>) override { return 0; }
  std::size_t wait(std::span<Completion>, std::uint64_t) override { return 0; }
  int fd() const noexcept override { return -1; }
  Status disconnect(PeerId) override { return Status::unsupported; }
  void close() override {}
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
