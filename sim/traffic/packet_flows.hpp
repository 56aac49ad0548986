// SPDX-License-Identifier: Apache-2.0
// The simplest traffic: flows that send their packets within a fixed window, or at a fixed pace.
// They never retransmit. For the fabric's own tests and measurements.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "sim/fabric/network.hpp"

namespace hawser::fabric {

// All in bytes of a packet on the wire, headers included.
struct PacketSizes {
  std::uint32_t most = 4150;  // these three are htsim's
  std::uint32_t headers = 64;
  std::uint32_t ack = 64;
  bool urgent_acks = true;
};

struct Flow {
  std::uint32_t from = 0;  // ports
  std::uint32_t to = 0;
  std::uint64_t bytes = 0;   // of payload; at least 1
  Instant start{};           // kNever: when start() is called
  std::uint32_t window = 0;  // packets without an ack; 0: no limit
  Span interval{};           // from packet to packet; 0: as the window allows
  std::uint16_t entropy = 0;
  std::uint16_t entropies = 1;  // packet n has entropy + n % entropies
};

struct FlowState {
  std::uint32_t packets = 0;  // of the flow
  std::uint32_t sent = 0;
  std::uint32_t arrived = 0;  // whole
  std::uint32_t trimmed = 0;  // not counted above, but they arrive, too, and are acked
  std::uint32_t marked = 0;
  std::uint32_t overtaken = 0;  // came after one that was sent later
  std::uint32_t acked = 0;
  std::uint32_t newest = 0;        // that has come, plus 1
  Instant first_arrival = kNever;  // kNever: none
  Instant last_arrival = kNever;
  Instant finished = kNever;  // the sender has the last ack
};

class PacketFlows final : public Actor, public Receiver {
 public:
  // Plugs itself into all ports.
  PacketFlows(EventWheel& events, Network& network, const PacketSizes& sizes);

  // Returns its number. All are added before the first event, or in `on_finished`.
  std::uint32_t add(const Flow& flow);
  void start(std::uint32_t flow);
  [[nodiscard]] const FlowState& state(std::uint32_t flow) const { return states_[flow]; }
  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(flows_.size()); }
  // Called when a flow's last ack has come.
  std::function<void(std::uint32_t flow)> on_finished;

  // The length on the wire of one of the flow's packets.
  [[nodiscard]] std::uint32_t wire_bytes(std::uint32_t flow, std::uint32_t number) const;

  void on_event(Instant now, std::uint32_t flow) override;
  void on_packet(Instant now, PacketId id) override;

 private:
  void send(std::uint32_t flow);
  void send_while_allowed(std::uint32_t flow);
  void on_ack(Instant now, std::uint32_t flow);

  EventWheel& events_;
  Network& network_;
  PacketSizes sizes_;
  std::vector<Flow> flows_;
  std::vector<FlowState> states_;
};

}  // namespace hawser::fabric
