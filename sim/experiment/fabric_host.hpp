// SPDX-License-Identifier: Apache-2.0
// A process of an experiment: an unchanged endpoint over NICs of the fabric, and the loop that
// turns it. The process has a core for itself. A turn takes a base time, and a time for each
// packet; packets that come meanwhile wait in the rings. An idle host costs no events: its next
// turn is when a packet comes, when the endpoint asked for it, or when sends that matter have left.
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
  std::vector<std::uint32_t> ports;  // a NIC for each
  fabric::Span turn = fabric::nanoseconds(200);
  fabric::Span packet = fabric::nanoseconds(40);  // for each one sent or received
};

// The parts that all hosts of an experiment share.
struct HostsShare {
  fabric::EventWheel& events;
  fabric::Network& network;
  proto::PacketPool& pool;
  ViewSlots& slots;
};

class FabricHost final : public fabric::Actor {
 public:
  // `turned` is called after each turn, so that the caller can poll for completions and call the
  // endpoint.
  FabricHost(const HostsShare& share, const HostConfig& config, std::function<void()> turned);
  FabricHost(const FabricHost&) = delete;
  FabricHost& operator=(const FabricHost&) = delete;

  [[nodiscard]] proto::Endpoint& endpoint() { return *endpoint_; }
  [[nodiscard]] std::span<const std::unique_ptr<FabricNic>> nics() const { return nics_; }
  // The time by the host's own clock, which counts from kEpoch.
  [[nodiscard]] proto::Time now() const { return local_time(events_.now()); }
  // The caller has called the endpoint, so a turn is due.
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
  fabric::Instant next_turn_ = fabric::kNever;  // only the event for this time counts
  fabric::Instant free_;                        // when the last turn is over
  std::uint64_t turns_ = 0;
};

}  // namespace hawser::experiment
