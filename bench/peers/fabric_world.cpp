// SPDX-License-Identifier: Apache-2.0
#include "bench/peers/fabric_world.hpp"

#include <algorithm>
#include <array>

#include "proto/base/assert.hpp"

namespace hawser::bench {

namespace {

using experiment::FabricHost;
using fabric::Instant;
using fabric::Span;

constexpr std::size_t kHeaderRoom = 128;
constexpr std::uint32_t kMostBytes = 65536;
constexpr std::uint32_t kSends = 512;  // sends at once, of a host that sends to all

Tunables limits(std::uint32_t peers, std::uint32_t posted) {
  Tunables tunables;
  tunables.max_peers = std::max(peers, 2u);
  if (peers > 1) {
    tunables.max_operations = std::max<std::uint64_t>(posted + kSends, 1024);
    return tunables;
  }
  tunables.max_operations = 2 * posted;
  tunables.max_messages_per_peer = 2048;
  tunables.max_in_flight_packets = 64;
  tunables.max_receive_messages = 256;
  tunables.max_bulk_paths = 0;
  tunables.unexpected_bytes = 1 << 17;
  return tunables;
}

double seconds(Span span) { return static_cast<double>(span.ps) * 1e-12; }

}  // namespace

fabric::Shape FabricWorld::shape(std::uint32_t ports) {
  constexpr std::uint32_t kRadix = 32;
  fabric::Shape shape = fabric::leaf_spine(std::max((ports + kRadix - 1) / kRadix, 2u), kRadix,
                                           kRadix, kBitsPerS, fabric::microseconds(1));
  shape.queue.capacity = 1 << 20;
  return shape;
}

FabricWorld::FabricWorld(std::uint32_t peers, Calls calls, std::uint64_t seed)
    : network_(events_, shape(peers + 1), seed, kHeaderRoom),
      calls_(calls),
      seed_(seed),
      nodes_(peers + 1),
      memory_(kMostBytes),
      random_(seed) {
  for (std::uint32_t port = 0; port <= peers; ++port) {
    make_host(port, port == 0 || calls == Calls::all_to_all ? peers : 1);
  }
}

void FabricWorld::make_host(std::uint32_t port, std::uint32_t peers) {
  const std::uint32_t posted = peers > 1 ? std::max(peers, kPosted) : kPosted;
  experiment::HostConfig config;
  config.endpoint.tunables = limits(peers, posted);
  if (calls_ == Calls::all_to_all) {  // small limits, so that hundreds of hosts fit
    config.endpoint.tunables.max_receive_messages = 4096;
    config.endpoint.tunables.unexpected_bytes = 1 << 20;
  }
  if (peers == 1) config.nic.send_slots = 64;
  config.endpoint.endpoint_id = port + 1;
  config.endpoint.epoch = 1;
  config.endpoint.seed = seed_ * nodes_.size() + port + 1;
  config.ports = {port};
  hosts_.push_back(
      std::make_unique<FabricHost>(experiment::HostsShare{events_, network_, pool_, slots_}, config,
                                   [this, port] { collect(port); }));
  Node& node = nodes_[port];
  for (std::uint32_t i = 0; i < posted; ++i) post(port, i);
  for (auto i = static_cast<std::uint32_t>(config.endpoint.tunables.max_operations);
       i-- > posted;) {
    node.free.push_back(i);
  }
}

void FabricWorld::post(std::uint32_t port, std::uint32_t operation) {
  proto::ReceiveRequest request;
  request.operation = OperationId{operation};
  request.data = memory_.data();
  request.bytes = memory_.size();
  HAWSER_ASSERT(hosts_[port]->endpoint().receive(hosts_[port]->now(), request) == Status::ok);
}

void FabricWorld::call(std::uint32_t from, std::uint32_t to) {
  std::array<std::byte, proto::Endpoint::kMaxAddressBytes> blob;
  const std::size_t bytes = hosts_[to]->endpoint().write_address(blob);
  PeerId peer{};
  HAWSER_ASSERT(hosts_[from]->endpoint().connect(hosts_[from]->now(), std::span(blob).first(bytes),
                                                 peer) == Status::ok);
  nodes_[from].peers.push_back(peer);
  hosts_[from]->wake();
}

std::uint64_t FabricWorld::lost_in_rings() const {
  std::uint64_t all = 0;
  for (const auto& host : hosts_) all += host->nics()[0]->counters().overruns;
  return all;
}

ConnectCost FabricWorld::connect(Span most) {
  const std::uint32_t peers = hosts() - 1;
  for (std::uint32_t port = 1; port <= peers; ++port) {
    if (calls_ == Calls::one_calls_all) call(0, port);
    if (calls_ == Calls::all_call_one) call(port, 0);
  }
  for (std::uint32_t from = 0; calls_ == Calls::all_to_all && from <= peers; ++from) {
    for (std::uint32_t i = 1; i <= peers; ++i) call(from, (from + i) % (peers + 1));
  }
  ConnectCost cost;
  cost.sessions = calls_ == Calls::all_to_all ? std::uint64_t{peers} * (peers + 1) / 2 : peers;
  const Instant begin = events_.now();
  cost.all_up = to_all(begin + most);
  cost.ms = seconds(events_.now() - begin) * 1e3;
  for (const auto& host : hosts_) {
    const EndpointStats stats = host->endpoint().stats();
    cost.handshakes += stats.handshakes_sent + stats.challenges_sent;
    cost.challenges += stats.challenges_sent;
  }
  cost.lost_in_queues = network_.totals().dropped;
  cost.lost_in_rings = lost_in_rings();
  return cost;
}

bool FabricWorld::send(std::uint32_t port, PeerId to) {
  Node& node = nodes_[port];
  if (node.free.empty()) return false;
  proto::SendRequest request;
  request.operation = OperationId{node.free.back()};
  request.peer = to;
  request.data = memory_.data();
  request.bytes = bytes_;
  if (hosts_[port]->endpoint().send(hosts_[port]->now(), request) != Status::ok) return false;
  node.free.pop_back();
  return true;
}

// Starts the sends that fit now.
void FabricWorld::go_on(std::uint32_t port) {
  Node& node = nodes_[port];
  bool any = false;
  while (node.to_send > 0 && node.under_way > 0) {
    const std::size_t which = in_turn_ ? node.peers.size() - node.to_send
                                       : static_cast<std::size_t>(random_.below(node.peers.size()));
    if (!send(port, node.peers[which])) break;
    --node.to_send;
    --node.under_way;
    any = true;
  }
  if (any) hosts_[port]->wake();
}

void FabricWorld::collect(std::uint32_t port) {
  std::array<Completion, 64> completions;
  while (const std::size_t count = hosts_[port]->endpoint().poll_completions(completions)) {
    for (const Completion& one : std::span(completions).first(count)) {
      if (one.status != Status::ok) ++failed_;
      const auto operation = static_cast<std::uint32_t>(one.operation);
      if (one.kind == OperationKind::receive) {
        ++received_;
        post(port, operation);
      } else {
        ++completed_;
        nodes_[port].free.push_back(operation);
        ++nodes_[port].under_way;
      }
    }
  }
  if (nodes_[port].to_send > 0) go_on(port);
}

std::uint64_t FabricWorld::resent() const {
  std::uint64_t all = 0;
  for (const auto& host : hosts_) all += host->endpoint().stats().fragments_retransmitted;
  return all;
}

std::uint64_t FabricWorld::cable_bytes() const {
  return network_.link(network_.wiring().from_port(0)).counters().bytes;
}

FabricRate FabricWorld::result(Instant begin, std::uint64_t bytes_before, std::uint64_t lost_before,
                               std::uint64_t messages) const {
  FabricRate rate;
  const double took = seconds(events_.now() - begin);
  rate.all = completed_ == messages && received_ == messages && failed_ == 0;
  rate.messages_per_s = static_cast<double>(messages) / took;
  rate.link_share = static_cast<double>(cable_bytes() - bytes_before) * 8 /
                    (static_cast<double>(kBitsPerS) * took);
  rate.resent = resent();
  rate.lost = network_.totals().dropped + lost_in_rings() - lost_before;
  return rate;
}

FabricRate FabricWorld::rate(std::uint64_t messages, std::uint32_t bytes, std::uint32_t under_way) {
  bytes_ = bytes;
  received_ = completed_ = 0;
  nodes_[0].to_send = messages;
  nodes_[0].under_way = under_way;
  const Instant begin = events_.now();
  const std::uint64_t sent = cable_bytes();
  const std::uint64_t lost = network_.totals().dropped + lost_in_rings();
  const std::uint64_t before = resent();
  go_on(0);
  while ((completed_ < messages || received_ < messages) && failed_ == 0 && !events_.empty()) {
    events_.step();
  }
  FabricRate rate = result(begin, sent, lost, messages);
  rate.resent -= before;
  return rate;
}

// Each host sends a message to each host that it has called. False if not all came before `until`.
bool FabricWorld::to_all(Instant until) {
  constexpr std::uint64_t kUnderWay = 128;
  in_turn_ = true;
  received_ = completed_ = 0;
  std::uint64_t messages = 0;
  for (Node& node : nodes_) {
    node.to_send = node.peers.size();
    node.under_way = kUnderWay;
    messages += node.to_send;
  }
  for (std::uint32_t port = 0; port < hosts(); ++port) go_on(port);
  while ((completed_ < messages || received_ < messages) && failed_ == 0 &&
         events_.next() <= until) {
    events_.step();
  }
  in_turn_ = false;
  return completed_ == messages && received_ == messages && failed_ == 0;
}

FabricRate FabricWorld::exchange(std::uint32_t bytes) {
  bytes_ = bytes;
  const Instant begin = events_.now();
  const std::uint64_t sent = cable_bytes();
  const std::uint64_t lost = network_.totals().dropped + lost_in_rings();
  const std::uint64_t before = resent();
  (void)to_all(fabric::kNever);
  FabricRate rate = result(begin, sent, lost, completed_);
  rate.resent -= before;
  return rate;
}

}  // namespace hawser::bench
