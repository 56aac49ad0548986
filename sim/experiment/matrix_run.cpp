// SPDX-License-Identifier: Apache-2.0
#include "sim/experiment/matrix_run.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <string>

#include "proto/base/assert.hpp"

namespace hawser::experiment {

namespace {
constexpr std::uint64_t kGreeting = 8;  // bytes
}  // namespace

proto::AllTunables with_limits(proto::AllTunables tunables, std::uint64_t peers,
                               std::uint64_t operations) {
  constexpr std::uint64_t kSpare = 4;
  const auto at_most = [](auto& limit, std::uint64_t least, std::uint64_t needed) {
    limit = std::min<std::uint64_t>(limit, std::max(least, needed));
  };
  tunables.max_peers = std::max<std::uint64_t>(peers + kSpare, 8);
  tunables.max_operations = std::max<std::uint64_t>(operations + kSpare, 64);
  at_most(tunables.max_messages_per_peer, 64, operations);
  at_most(tunables.max_receive_messages, 64, operations + peers);
  // Packets that NICs of 400 Gb/s have in flight in 40 us, or a few packets for each peer.
  at_most(tunables.max_in_flight_packets, 1024, 32 * peers);
  at_most(tunables.max_bulk_paths, 64, 16 * peers);
  at_most(tunables.unexpected_bytes, 1 << 18, peers << 16);
  return tunables;
}

MatrixRun::MatrixRun(const HostsShare& share, const fabric::ConnectionMatrix& matrix,
                     const HostConfig& config, std::uint32_t nics, Hints hints)
    : events_(share.events),
      starter_(share.events, matrix, [this](std::uint32_t flow) { start(flow); }),
      connections_(static_cast<std::uint32_t>(matrix.connections.size())),
      flows_(matrix.connections),
      nodes_(matrix.nodes),
      hints_(hints),
      wiring_(share.network.wiring()) {
  const std::uint32_t ports = share.network.wiring().ports();
  if (std::uint64_t{matrix.nodes} * nics > ports) {
    throw fabric::InputError("the matrix has " + std::to_string(matrix.nodes) + " nodes of " +
                             std::to_string(nics) + " NICs, but the fabric only " +
                             std::to_string(ports) + " ports");
  }
  std::uint64_t most = kGreeting;
  for (const fabric::Connection& one : flows_) {
    most = std::max(most, one.bytes);
    if (one.bytes <= kMostBytes) continue;
    throw fabric::InputError(
        "line " + std::to_string(one.line) + ": a connection of " + std::to_string(one.bytes) +
        " bytes, but an experiment's have at most " + std::to_string(kMostBytes));
  }
  add_greetings();
  times_.resize(flows_.size());
  memory_.resize(most);
  make_hosts(share, config, nics);
  make_peers();
}

// A greeting each way between the nodes that the matrix joins, so that both ends' peers are up.
void MatrixRun::add_greetings() {
  std::set<std::pair<std::uint32_t, std::uint32_t>> pairs;
  for (const fabric::Connection& one : flows_) {
    pairs.emplace(one.from, one.to);
    pairs.emplace(one.to, one.from);
  }
  for (const auto& [from, to] : pairs) {
    fabric::Connection greeting;
    greeting.from = from;
    greeting.to = to;
    greeting.bytes = kGreeting;
    flows_.push_back(greeting);
  }
}

void MatrixRun::make_hosts(const HostsShare& share, const HostConfig& config, std::uint32_t nics) {
  std::vector<std::uint64_t> peers(nodes_.size());
  std::vector<std::uint64_t> operations(nodes_.size());
  for (std::uint32_t flow = 0; flow < flows_.size(); ++flow) {
    ++operations[flows_[flow].from];
    ++operations[flows_[flow].to];
    if (flow >= connections_) ++peers[flows_[flow].from];
  }
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    HostConfig one = config;
    one.endpoint.tunables = with_limits(config.endpoint.tunables, peers[i], operations[i]);
    one.endpoint.endpoint_id = i + 1;
    one.endpoint.epoch = 1;
    one.endpoint.seed = config.endpoint.seed * nodes_.size() + i + 1;
    one.ports.clear();
    for (std::uint32_t nic = 0; nic < nics; ++nic) {
      one.ports.push_back(share.network.wiring().port(i, nic));
    }
    Node& node = nodes_[i];
    node.flows.resize(operations[i]);
    for (auto n = static_cast<std::uint32_t>(operations[i]); n-- > 0;) node.free.push_back(n);
    node.host = std::make_unique<FabricHost>(share, one, [this, i] { collect(i); });
  }
}

void MatrixRun::make_peers() {
  std::array<std::byte, proto::Endpoint::kMaxAddressBytes> blob;
  for (std::uint32_t flow = connections_; flow < flows_.size(); ++flow) {
    Node& node = nodes_[flows_[flow].from];
    const std::size_t bytes = host(flows_[flow].to).endpoint().write_address(blob);
    const Status status = node.host->endpoint().connect(
        node.host->now(), std::span(blob).first(bytes), node.peers[flows_[flow].to]);
    HAWSER_ASSERT(status == Status::ok, "limits follow from the matrix");
  }
}

OperationId MatrixRun::name(Node& node, std::uint32_t flow) {
  HAWSER_ASSERT(!node.free.empty());
  const std::uint32_t operation = node.free.back();
  node.free.pop_back();
  node.flows[operation] = flow;
  return OperationId{operation};
}

void MatrixRun::post(std::uint32_t flow) {
  Node& node = nodes_[flows_[flow].to];
  proto::ReceiveRequest request;
  request.operation = name(node, flow);
  request.peer = node.peers.at(flows_[flow].from);
  request.tag = flow;
  request.data = memory_.data();
  request.bytes = flows_[flow].bytes;
  if (hints_ != Hints::none) request.options.hint = flows_[flow].hint;
  const Status status = node.host->endpoint().receive(node.host->now(), request);
  HAWSER_ASSERT(status == Status::ok, "limits follow from the matrix");
  node.host->wake();
}

bool MatrixRun::try_send(std::uint32_t flow) {
  Node& node = nodes_[flows_[flow].from];
  proto::SendRequest request;
  request.operation = name(node, flow);
  request.peer = node.peers.at(flows_[flow].to);
  request.tag = flow;
  request.data = memory_.data();
  request.bytes = flows_[flow].bytes;
  if (hints_ == Hints::all) request.options.hint = flows_[flow].hint;
  const Status status = node.host->endpoint().send(node.host->now(), request);
  if (status == Status::ok) {
    node.host->wake();
    return true;
  }
  node.free.push_back(static_cast<std::uint32_t>(request.operation));
  failed_ = failed_ || status != Status::again;
  return false;
}

void MatrixRun::start(std::uint32_t flow) {
  times_[flow].started = events_.now();
  Node& node = nodes_[flows_[flow].from];
  // A node's sends go in their order.
  if (!node.delayed.empty() || !try_send(flow)) node.delayed.push_back(flow);
}

void MatrixRun::collect(std::uint32_t number) {
  Node& node = nodes_[number];
  std::array<Completion, 16> completions;
  while (const std::size_t count = node.host->endpoint().poll_completions(completions)) {
    for (std::size_t i = 0; i < count; ++i) {
      const auto operation = static_cast<std::uint32_t>(completions[i].operation);
      node.free.push_back(operation);
      complete(node.flows[operation], completions[i]);
    }
  }
  hear_of_paths(number);
  std::size_t sent = 0;
  while (sent < node.delayed.size() && try_send(node.delayed[sent])) ++sent;
  node.delayed.erase(node.delayed.begin(),
                     node.delayed.begin() + static_cast<std::ptrdiff_t>(sent));
}

// A path that goes from UP to SUSPECT and DOWN counts as accused once, and again after it was UP.
void MatrixRun::hear_of_paths(std::uint32_t number) {
  Node& node = nodes_[number];
  std::array<Event, 16> events;
  while (const std::size_t count = node.host->endpoint().poll_events(events)) {
    for (std::size_t i = 0; i < count; ++i) {
      const Event& event = events[i];
      const bool leaves =
          event.kind == Event::Kind::path_suspect || event.kind == Event::Kind::path_down;
      if (!leaves && event.kind != Event::Kind::path_up) continue;
      const auto peer = static_cast<std::uint32_t>(event.endpoint_id - 1);  // make_hosts
      const Accusation one{events_.now(), wiring_.port(number, event.nic),
                           wiring_.port(peer, event.remote_nic)};
      if (!leaves) {
        node.left.erase({one.from, one.to});
      } else if (node.left.emplace(one.from, one.to).second) {
        accusations_.push_back(one);
      }
    }
  }
}

void MatrixRun::complete(std::uint32_t flow, const Completion& completion) {
  ++ends_;
  failed_ = failed_ || completion.status != Status::ok;
  const bool is_receive = completion.kind == OperationKind::receive;
  (is_receive ? times_[flow].received : times_[flow].ended) = events_.now();
  if (flow >= connections_) return;
  if (is_receive) {
    starter_.received(flow);
  } else {
    starter_.sent(flow);
  }
}

CarrierTotals MatrixRun::totals() const {
  CarrierTotals totals;
  for (const Node& node : nodes_) {
    const EndpointStats stats = node.host->endpoint().stats();
    totals.data_packets += stats.data_packets_sent;
    totals.retransmitted += stats.fragments_retransmitted;
    totals.duplicates += stats.duplicate_fragments;
  }
  return totals;
}

bool MatrixRun::wait(fabric::Span most, std::uint64_t ends) {
  const fabric::Instant until = events_.now() + most;
  while (ends_ < ends && !failed_ && events_.next() <= until) events_.step();
  return ends_ == ends && !failed_;
}

bool MatrixRun::connect(fabric::Span most) {
  for (std::uint32_t flow = connections_; flow < flows_.size(); ++flow) post(flow);
  for (std::uint32_t flow = connections_; flow < flows_.size(); ++flow) start(flow);
  return wait(most, 2 * (flows_.size() - connections_));
}

bool MatrixRun::run(fabric::Span most) {
  for (std::uint32_t flow = 0; flow < connections_; ++flow) post(flow);
  begun_ = events_.now();
  starter_.begin();
  return wait(most, 2 * flows_.size());
}

}  // namespace hawser::experiment
