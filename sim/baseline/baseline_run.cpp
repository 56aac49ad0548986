// SPDX-License-Identifier: Apache-2.0
#include "sim/baseline/baseline_run.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "proto/base/assert.hpp"
#include "sim/baseline/round_trip.hpp"
#include "sim/fabric/input_error.hpp"

namespace hawser::baseline {

using fabric::Instant;
using fabric::kNever;
using fabric::Packet;
using fabric::PacketId;

namespace {

constexpr std::uint32_t kAck = 1u << 31;  // in a packet's number

std::uint64_t packets_of(std::uint64_t bytes, const PacketSizes& sizes) {
  return std::max<std::uint64_t>((bytes + sizes.payload - 1) / sizes.payload, 1);
}

}  // namespace

BaselineRun::BaselineRun(fabric::EventWheel& events, fabric::Network& network,
                         const fabric::ConnectionMatrix& matrix, const Baseline& what,
                         const Setup& setup, std::uint32_t nics)
    : events_(events),
      network_(network),
      starter_(events, matrix, [this](std::uint32_t flow) { start(flow); }),
      flows_(matrix.connections),
      setup_(setup),
      nics_(nics),
      round_trip_(round_trip_packets(network.wiring(), setup.sizes, setup.round_trip_bytes)),
      moves_(what.moves),
      move_takes_(what.move_takes),
      ports_(network.wiring().ports(), Port(setup.cache)),
      times_(matrix.connections.size()) {
  HAWSER_ASSERT(setup.sizes.payload > 0 && setup.sizes.ack > 0 && nics > 0);
  const std::uint32_t of_host = network.wiring().port(1, 0);
  if (nics > of_host || std::uint64_t{matrix.nodes} * of_host > ports_.size()) {
    throw fabric::InputError("the matrix has " + std::to_string(matrix.nodes) + " nodes of " +
                             std::to_string(nics) + " NICs, but the fabric " +
                             std::to_string(ports_.size() / of_host) + " hosts of " +
                             std::to_string(of_host));
  }
  if (network.packets().header_room() == 0) {
    throw fabric::InputError("acks of baselines carry " + std::to_string(sizeof(Ack)) +
                             " bytes of headers: the network needs room for them");
  }
  make_connections(what, matrix.nodes);
  for (std::uint32_t node = 0; node < matrix.nodes; ++node) {
    for (std::uint32_t nic = 0; nic < nics; ++nic) {
      network_.plug(network_.wiring().port(node, nic), this);
    }
  }
}

void BaselineRun::make_connections(const Baseline& what, std::uint32_t nodes) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> numbers;
  std::vector<std::uint64_t> packets;
  std::vector<std::uint32_t> of_node(nodes);
  for (const fabric::Connection& flow : flows_) {
    const auto [place, is_new] =
        numbers.try_emplace({flow.from, flow.to}, static_cast<std::uint32_t>(connections_.size()));
    connection_of_.push_back(place->second);
    if (is_new) {
      const Place at{.round_trip = round_trip_,
                     .nic = of_node[flow.from]++ % nics_,
                     .nics = nics_,
                     .payload = setup_.sizes.payload,
                     .seed = sim::scramble(setup_.seed) + connections_.size()};
      auto recovery = make_recovery(what, at);
      const Reception reception(recovery->keeps_early());
      connections_.push_back({.from = flow.from,
                              .to = flow.to,
                              .board = {},
                              .recovery = std::move(recovery),
                              .congestion = make_congestion(what, at),
                              .spray = make_spray(what, at),
                              .reception = reception,
                              .messages = {},
                              .way = std::nullopt});
      packets.push_back(0);
    }
    packets[place->second] += packets_of(flow.bytes, setup_.sizes);
    if (packets[place->second] < kAck) continue;
    throw fabric::InputError("line " + std::to_string(flow.line) + ": from node " +
                             std::to_string(flow.from) + " to node " + std::to_string(flow.to) +
                             " go more packets than a baseline can number, " +
                             std::to_string(kAck - 1) + " at most");
  }
}

// ---- sending

void BaselineRun::start(std::uint32_t flow) {
  times_[flow].started = events_.now();
  const std::uint32_t number = connection_of_[flow];
  Connection& connection = connections_[number];
  const auto packets = static_cast<std::uint32_t>(packets_of(flows_[flow].bytes, setup_.sizes));
  connection.messages.push_back({.flow = flow,
                                 .first = connection.board.end(),
                                 .packets = packets,
                                 .bytes = flows_[flow].bytes});
  connection.board.extend(packets);
  offer(number);
}

// If the connection may send, it waits for its turn at the port that its next packet takes.
void BaselineRun::offer(std::uint32_t number) {
  Connection& connection = connections_[number];
  if (connection.waits_at != Connection::kNoPort || !connection.may_send()) return;
  if (!connection.way) connection.way = connection.spray->next();
  const std::uint32_t port = network_.wiring().port(connection.from, connection.way->nic);
  connection.waits_at = port;
  ports_[port].waiting.push_back(number);
  serve(port);
}

// A port whose cable is dead sends into nothing, at the port's own rate.
Instant BaselineRun::free_at(std::uint32_t port) const {
  if (network_.link(network_.wiring().from_port(port)).is_down()) return ports_[port].free;
  return std::max(ports_[port].free, events_.now() + network_.backlog(port));
}

void BaselineRun::serve(std::uint32_t number) {
  Port& port = ports_[number];
  if (port.is_armed || port.is_sending) return;
  port.is_sending = true;
  while (!port.waiting.empty()) {
    const Instant free = free_at(number);
    if (free > events_.now()) {
      port.is_armed = true;
      events_.at(free, frees_, number);
      break;
    }
    const std::uint32_t next = port.waiting.front();
    port.waiting.pop_front();
    Connection& connection = connections_[next];
    connection.waits_at = Connection::kNoPort;
    const std::optional<std::uint32_t> packet = connection.may_send();
    // The connection may have moved meanwhile, and then has to wait at another port.
    const bool is_here =
        connection.way && network_.wiring().port(connection.from, connection.way->nic) == number;
    if (packet && is_here) send(next, number, *packet);
    offer(next);
  }
  port.is_sending = false;
}

void BaselineRun::on_port_free(Instant, std::uint32_t port) {
  ports_[port].is_armed = false;
  serve(port);
}

void BaselineRun::send(std::uint32_t number, std::uint32_t from, std::uint32_t which) {
  const Instant now = events_.now();
  Connection& connection = connections_[number];
  const Message& message = connection.message_of(which);
  const std::uint64_t before = std::uint64_t{which - message.first} * setup_.sizes.payload;
  const std::uint64_t bytes = std::min<std::uint64_t>(message.bytes - before, setup_.sizes.payload);
  const PacketId id = network_.packets().take();
  Packet& packet = network_.packets().at(id);
  packet.sent = now;
  packet.from = from;
  packet.to = network_.wiring().port(connection.to, connection.way->nic);
  packet.wire_bytes = static_cast<std::uint32_t>(bytes) + setup_.sizes.overhead;
  packet.flow = number;
  packet.number = which;
  packet.entropy = connection.way->entropy;
  connection.way.reset();

  Port& port = ports_[from];
  const std::uint64_t rate =
      network_.wiring().settings(network_.wiring().from_port(from)).bits_per_s;
  port.free = now + fabric::Pace::of(rate).time_of(packet.wire_bytes);
  ++totals_.data_packets;
  if (connection.board.on_sent(which, now) > 0) ++totals_.retransmitted;
  connection.recovery->on_sent(connection.board, now, which);
  arm(number);
  const Instant ready = port.cache.use(packet.to, now);
  if (ready > now) return events_.at(ready, contexts_to_send_, id);
  network_.send(id);
}

void BaselineRun::on_context_to_send(Instant, PacketId id) { network_.send(id); }

// ---- receiving

void BaselineRun::on_packet(Instant now, PacketId id) {
  const Packet& packet = network_.packets().at(id);
  if (packet.trimmed) return network_.packets().give(id);
  const Instant ready = ports_[packet.to].cache.use(packet.from, now);
  if (ready > now) return events_.at(ready, contexts_to_receive_, id);
  on_context_to_receive(now, id);
}

void BaselineRun::on_context_to_receive(Instant now, PacketId id) {
  const bool is_ack = (network_.packets().at(id).number & kAck) != 0;
  is_ack ? on_ack(now, id) : on_data(now, id);
}

void BaselineRun::on_data(Instant now, PacketId id) {
  Packet& packet = network_.packets().at(id);
  const std::uint32_t number = packet.number;
  Connection& connection = connections_[packet.flow];
  const Reception::Outcome outcome = connection.reception.take(number);
  if (!outcome.ack) {
    network_.packets().give(id);
  } else {
    // The same record goes back, by the same way if ways are chosen by hash.
    Packet ack;
    ack.sent = packet.sent;
    ack.from = packet.to;
    ack.to = packet.from;
    ack.wire_bytes = setup_.sizes.ack;
    ack.flow = packet.flow;
    ack.number = number | kAck;
    ack.entropy = packet.entropy;
    ack.urgent = setup_.sizes.urgent_acks;
    ack.takes_marks = false;
    ack.marked = packet.marked;  // the fabric marks none that doesn't take marks
    packet = ack;
    network_.packets().set_header(id, std::as_bytes(std::span(&*outcome.ack, 1)));
    network_.send(id);
  }
  if (outcome.arrival == Reception::Arrival::again) ++totals_.duplicates;
  if (outcome.arrival != Reception::Arrival::first) return;
  Message& message = connection.message_of(number);
  if (++message.received < message.packets) return;
  times_[message.flow].received = now;
  starter_.received(message.flow);
}

void BaselineRun::on_ack(Instant now, PacketId id) {
  const Packet packet = network_.packets().at(id);
  Ack ack;
  const std::span<const std::byte> header = network_.packets().header(id);
  HAWSER_ASSERT(header.size() == sizeof ack);
  std::memcpy(&ack, header.data(), sizeof ack);
  network_.packets().give(id);

  const std::uint32_t number = packet.flow;
  Connection& connection = connections_[number];
  if (connection.is_moving) return;
  const fabric::Span round_trip = now - packet.sent;
  Congestion::Sample sample{.now = now,
                            .round_trip = round_trip,
                            .flying = connection.board.flying(),
                            .is_marked = packet.marked};
  const Message& message = connection.message_of(ack.number);
  sample.is_full =
      std::uint64_t{ack.number - message.first + 1} * setup_.sizes.payload <= message.bytes;
  const std::uint64_t losses = connection.board.losses();
  sample.news = connection.recovery->on_ack(connection.board, now, ack);
  sample.lost = connection.board.losses() - losses;
  connection.congestion->on_ack(sample);
  const std::uint32_t nic = packet.to - network_.wiring().port(connection.from, 0);
  connection.spray->on_ack({nic, packet.entropy}, round_trip, packet.marked);
  if (sample.news > 0) connection.moves = 0;
  finish(number);
  offer(number);
  arm(number);
}

// Reports the messages that have ended, in their order.
void BaselineRun::finish(std::uint32_t number) {
  Connection& connection = connections_[number];
  while (connection.ended < connection.messages.size()) {
    const Message& message = connection.messages[connection.ended];
    if (connection.board.oldest() < message.first + message.packets) return;
    const std::uint32_t flow = message.flow;
    ++connection.ended;
    ++ended_;
    times_[flow].ended = events_.now();
    starter_.sent(flow);
  }
}

// ---- timers

void BaselineRun::arm(std::uint32_t number) {
  Connection& connection = connections_[number];
  const Instant deadline = connection.recovery->deadline(connection.board);
  if (deadline >= connection.timer) return;
  connection.timer = deadline;
  events_.at(deadline, timers_, number);
}

void BaselineRun::on_timer(Instant now, std::uint32_t number) {
  Connection& connection = connections_[number];
  if (connection.timer != now || connection.is_moving) return;
  connection.timer = kNever;
  if (connection.recovery->deadline(connection.board) > now) return arm(number);
  const std::uint64_t losses = connection.board.losses();
  if (connection.recovery->on_deadline(connection.board, now)) {
    connection.congestion->on_timeout(connection.board.losses() - losses);
    offer(number);
    return arm(number);
  }
  if (!moves_ || connection.moves + 1 >= nics_) {
    failed_ = true;
    return;
  }
  ++connection.moves;
  connection.is_moving = true;
  const std::uint32_t nic = (connection.way ? *connection.way : connection.spray->next()).nic;
  accusations_.push_back({now, network_.wiring().port(connection.from, nic),
                          network_.wiring().port(connection.to, nic)});
  events_.at(now + move_takes_, moved_, number);
}

void BaselineRun::on_moved(Instant now, std::uint32_t number) {
  Connection& connection = connections_[number];
  connection.is_moving = false;
  connection.timer = kNever;
  connection.spray->move();
  connection.way.reset();
  connection.recovery->restart(connection.board, now);
  offer(number);
  arm(number);
}

bool BaselineRun::run(fabric::Span most) {
  begun_ = events_.now();
  starter_.begin();
  const Instant until = begun_ + most;
  while (ended_ < flows_.size() && !failed_ && events_.next() <= until) events_.step();
  return ended_ == flows_.size() && !failed_;
}

}  // namespace hawser::baseline
