// SPDX-License-Identifier: Apache-2.0
// A fabric with simple flows over it, and the times of packets on its cables.
#pragma once

#include <catch2/catch.hpp>
#include <vector>

#include "sim/fabric/faults.hpp"
#include "sim/traffic/packet_flows.hpp"

namespace hawser::fabric {

inline constexpr PacketSizes kSizes;
inline constexpr std::uint32_t kPayload = kSizes.most - kSizes.headers;

struct Scene {
  EventWheel events;
  Network network;
  PacketFlows flows;
  explicit Scene(const Shape& shape, std::uint64_t seed = 1, PacketSizes sizes = kSizes)
      : network(events, shape, seed), flows(events, network, sizes) {}
  const Wiring& wiring() const { return network.wiring(); }
  const LinkCounters& counters(std::uint32_t link) const { return network.link(link).counters(); }
  void run() {
    events.run();
    CHECK(network.packets().out() == 0);
  }
};

// Sends single packets straight to a port, and records what arrives there.
struct Sink final : Receiver {
  Network& network;
  std::vector<std::pair<std::int64_t, std::uint32_t>> came;  // when, in ps, and which
  std::vector<std::uint32_t> marked;
  std::vector<std::uint32_t> trimmed;
  explicit Sink(Network& of) : network(of) {
    for (std::uint32_t port = 0; port < of.wiring().ports(); ++port) of.plug(port, this);
  }
  void on_packet(Instant now, PacketId id) override {
    const Packet& packet = network.packets().at(id);
    came.emplace_back(now.ps, packet.number);
    if (packet.marked) marked.push_back(packet.number);
    if (packet.trimmed) trimmed.push_back(packet.number);
    network.packets().give(id);
  }
  void send(std::uint32_t from, std::uint32_t to, std::uint32_t bytes, std::uint32_t number,
            std::uint16_t entropy = 0, bool urgent = false) {
    const PacketId id = network.packets().take();
    Packet& packet = network.packets().at(id);
    packet.from = from;
    packet.to = to;
    packet.wire_bytes = bytes;
    packet.number = number;
    packet.entropy = entropy;
    packet.urgent = urgent;
    network.send(id);
  }
};

// The time of a full packet, and of an acknowledgement, on a cable.
inline Span full(std::uint64_t gbps) { return Pace::of(gbps * kGigabit).time_of(kSizes.most); }
inline Span ack(std::uint64_t gbps) { return Pace::of(gbps * kGigabit).time_of(kSizes.ack); }

}  // namespace hawser::fabric
