// SPDX-License-Identifier: Apache-2.0
// Runs the schedule on the fabric of sim/fabric.
#include "bench/against_ns3/schedule.hpp"
#include "sim/fabric/network.hpp"

namespace hawser::against_ns3 {

namespace {

using fabric::Instant;
using fabric::PacketId;

constexpr std::uint32_t kSink = kSources;  // the port after the sources' ports

fabric::Shape shape(const Case& which) {
  fabric::Shape made =
      fabric::one_switch(kSources + 1, kBitsPerSecond, fabric::picoseconds(kLatencyPs));
  made.queue.capacity = which.capacity * kPacketBytes;
  return made;
}

// Sends each packet at its time, with one event pending, and notes the arrivals.
struct Run final : fabric::Actor, fabric::Receiver {
  fabric::EventWheel events;
  fabric::Network network;
  const std::vector<Departure>& departures;
  Outcome outcome;

  Run(const Case& which, const std::vector<Departure>& given)
      : network(events, shape(which), which.seed), departures(given) {
    outcome.arrived_ps.resize(departures.size(), kDropped);
    network.plug(kSink, this);
    plan(0);
  }
  void plan(std::uint32_t number) {
    if (number < departures.size()) events.at(Instant{departures[number].at_ps}, *this, number);
  }
  void on_event(Instant /*now*/, std::uint32_t number) override {
    const PacketId id = network.packets().take();
    fabric::Packet& packet = network.packets().at(id);
    packet.from = departures[number].source;
    packet.to = kSink;
    packet.wire_bytes = kPacketBytes;
    packet.number = number;
    network.send(id);
    plan(number + 1);
  }
  void on_packet(Instant now, PacketId id) override {
    outcome.arrived_ps[network.packets().at(id).number] = now.ps;
    network.packets().give(id);
  }
};

}  // namespace

Outcome run_hawser(const Case& which, const std::vector<Departure>& departures) {
  Run run(which, departures);
  run.events.run();
  run.outcome.dropped = run.network.link(run.network.wiring().to_port(kSink)).counters().dropped;
  return run.outcome;
}

}  // namespace hawser::against_ns3
