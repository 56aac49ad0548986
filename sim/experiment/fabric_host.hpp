// SPDX-License-Identifier: Apache-2.0
// A process of an experiment: an endpoint, unchanged, over NICs of the fabric, and the loop that
// turns it. It has a core for itself: a turn takes a base and a part for each packet, what comes
// meanwhile waits in the rings, and a host with nothing to do costs no events: the next turn is
// when something comes, when the endpoint asked for it, or when sends that matter have left.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "proto/endpoint.hpp"
#include "sim/experiment/fabric_nic.hpp"

namespace hawser::experiment {

struct HostConfig {
  proto::EndpointConfig endpoint;
  NicConfig nic;
  std::vector<std::uint32_t> ports;  // a NIC each
  fabric::Span turn = fabric::nanoseconds(200);
  fabric::Span packet = fabric::nanoseconds(40);  // for each one sent or received
};

// What all hosts of an experiment share.
struct HostsShare {
  fabric::EventWheel& events;
  fabric::Network& network;
  proto::PacketPool& pool;
  ViewSlots& slots;
};

class FabricHost final : public fabric::Actor {
 public:
  // `turned` is called after each turn: time to look for completions and to call the endpoint.
  FabricHost(const HostsShare& share, const HostConfig& config, std::function<void()> turned);
  FabricHost(const FabricHost&) = delete;
  FabricHost& operator=(const FabricHost&) = delete;

  [[nodiscard]] proto::Endpoint& endpoint() { return *endpoint_; }
  [[nodiscard]] std::span<const std::unique_ptr<FabricNic>> nics() const { return nics_; }
  // By its own clock, which counts from kEpoch.
  [[nodiscard]] proto::Time now() const { return local_time(events_.now()); }
  // Something was called: a turn is due.
  void wake() { schedule(events_.now()); }
  [[nodiscard]] std::uint64_t turns() const { return turns_; }

  void on_event(fabric::Instant now, std::uint32_t what) override;

 private:
  void schedule(fabric::Instant at);
  [[nodiscard]] std::uint64_t packets() const;

  fabric::EventWheel& events_;
  std::vector<std::unique_ptr<FabricNic>> nics_;
  std::unique_ptr<proto::Endpoint> endpoint_;
  std::function<void()> turned_;
  fabric::Span turn_;
  fabric::Span packet_;
  fabric::Instant next_turn_ = fabric::kNever;  // the event of which counts
  fabric::Instant free_;                        // the last turn is over
  std::uint64_t turns_ = 0;
};

}  // namespace hawser::experiment
