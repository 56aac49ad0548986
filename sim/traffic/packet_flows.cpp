// SPDX-License-Identifier: Apache-2.0
#include "sim/traffic/packet_flows.hpp"

#include <algorithm>

#include "proto/base/assert.hpp"

namespace hawser::fabric {

namespace {
constexpr std::uint32_t kAck = 1u << 31;  // in a packet's number
}  // namespace

PacketFlows::PacketFlows(EventWheel& events, Network& network, const PacketSizes& sizes)
    : events_(events), network_(network), sizes_(sizes) {
  HAWSER_ASSERT(sizes.most > sizes.headers && sizes.ack > 0);
  for (std::uint32_t port = 0; port < network.wiring().ports(); ++port) network.plug(port, this);
}

std::uint32_t PacketFlows::add(const Flow& flow) {
  const std::uint64_t payload = sizes_.most - sizes_.headers;
  const std::uint64_t packets = (flow.bytes + payload - 1) / payload;
  HAWSER_ASSERT(packets > 0 && packets < kAck && flow.entropies > 0);
  const std::uint32_t number = count();
  flows_.push_back(flow);
  states_.emplace_back().packets = static_cast<std::uint32_t>(packets);
  if (flow.start != kNever) events_.at(flow.start, *this, number);
  return number;
}

void PacketFlows::start(std::uint32_t flow) { events_.at(events_.now(), *this, flow); }

std::uint32_t PacketFlows::wire_bytes(std::uint32_t flow, std::uint32_t number) const {
  const std::uint64_t payload = sizes_.most - sizes_.headers;
  const std::uint64_t left = flows_[flow].bytes - number * payload;
  return static_cast<std::uint32_t>(std::min(left, payload)) + sizes_.headers;
}

void PacketFlows::send(std::uint32_t number) {
  const Flow& flow = flows_[number];
  FlowState& state = states_[number];
  const PacketId id = network_.packets().take();
  Packet& packet = network_.packets().at(id);
  packet.sent = events_.now();
  packet.from = flow.from;
  packet.to = flow.to;
  packet.wire_bytes = wire_bytes(number, state.sent);
  packet.flow = number;
  packet.number = state.sent;
  packet.entropy = static_cast<std::uint16_t>(flow.entropy + state.sent % flow.entropies);
  ++state.sent;
  network_.send(id);
}

void PacketFlows::send_while_allowed(std::uint32_t number) {
  const Flow& flow = flows_[number];
  FlowState& state = states_[number];
  while (state.sent < state.packets &&
         (flow.window == 0 || state.sent - state.acked < flow.window)) {
    send(number);
  }
}

void PacketFlows::on_event(Instant now, std::uint32_t number) {
  const Flow& flow = flows_[number];
  if (flow.interval == Span{}) return send_while_allowed(number);
  send(number);
  if (states_[number].sent < states_[number].packets)
    events_.at(now + flow.interval, *this, number);
}

void PacketFlows::on_packet(Instant now, PacketId id) {
  Packet& packet = network_.packets().at(id);
  const std::uint32_t number = packet.flow;
  if ((packet.number & kAck) != 0) {
    network_.packets().give(id);
    return on_ack(now, number);
  }
  FlowState& state = states_[number];
  if (state.arrived + state.trimmed == 0) state.first_arrival = now;
  state.last_arrival = now;
  ++(packet.trimmed ? state.trimmed : state.arrived);
  state.marked += packet.marked ? 1 : 0;
  if (packet.number < state.newest) {
    ++state.overtaken;
  } else {
    state.newest = packet.number + 1;
  }
  // The same record goes back as its ack, by the same way if ways are chosen by hash.
  Packet ack;
  ack.from = packet.to;
  ack.to = packet.from;
  ack.wire_bytes = sizes_.ack;
  ack.flow = number;
  ack.number = packet.number | kAck;
  ack.entropy = packet.entropy;
  ack.urgent = sizes_.urgent_acks;
  ack.takes_marks = false;
  packet = ack;
  network_.send(id);
}

void PacketFlows::on_ack(Instant now, std::uint32_t number) {
  FlowState& state = states_[number];
  if (++state.acked == state.packets) {
    state.finished = now;
    if (on_finished) on_finished(number);
    return;
  }
  if (flows_[number].interval == Span{}) send_while_allowed(number);
}

}  // namespace hawser::fabric
