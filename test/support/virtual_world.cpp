// SPDX-License-Identifier: Apache-2.0
#include "test/support/virtual_world.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>

#include "test/support/heap_guard.hpp"

namespace hawser::test {

namespace {
constexpr proto::Duration kTurnCost = proto::microseconds(1);
constexpr std::uint64_t kLatestEpoch = 1000;
constexpr proto::Duration kHookedDelay = proto::microseconds(5);
}  // namespace

proto::AllTunables small_tunables() {
  proto::AllTunables tunables;
  tunables.max_peers = 16;
  tunables.max_operations = 2048;
  tunables.max_receive_messages = 2048;
  tunables.max_in_flight_packets = 4096;
  tunables.packet_buffers = 4096;
  tunables.unexpected_bytes = 2 << 20;
  return tunables;
}

WorldConfig tiny_world() {
  WorldConfig config;
  config.tunables.max_operations = 128;
  config.tunables.max_receive_messages = 128;
  config.tunables.max_in_flight_packets = 512;
  config.tunables.packet_buffers = 512;
  config.tunables.unexpected_bytes = 256 << 10;
  config.ring_slots = 256;
  config.control_slots = 256;
  config.held_packets = 512;
  return config;
}

World::World(WorldConfig config) : config_(std::move(config)) {
  for (std::uint32_t i = 0; i < config_.nodes; ++i) {
    nodes_.push_back(std::make_unique<Node>());
    build(i);
  }
  peers_.assign(config_.nodes, std::vector<PeerId>(config_.nodes, kAnyPeer));
}

World::~World() {
  for (auto& node : nodes_) node->endpoint.reset();
}

void World::build(std::uint32_t index) {
  Node& node = *nodes_[index];
  node.endpoint.reset();
  node.observed.clear();
  node.nics.clear();
  node.pool = std::make_unique<SimplePool>(config_.tunables.packet_buffers);
  std::uint32_t count = config_.nics_of.empty() ? config_.nics : config_.nics_of[index];
  if (!config_.fabrics.empty()) count = static_cast<std::uint32_t>(config_.fabrics[index].size());
  std::vector<proto::Nic*> nics;
  for (std::uint32_t i = 0; i < count; ++i) {
    engine::MemoryNicConfig memory;
    memory.data_slots = config_.ring_slots;
    memory.control_slots = config_.control_slots;
    memory.entropies = config_.entropies;
    memory.max_remotes = config_.remotes;
    memory.needs_checksum = true;  // so that damage can be injected
    engine::FaultNicConfig fault;
    fault.seed = config_.seed * 1000 + index;
    fault.stream = i + 1000 * node.epoch;
    fault.held_packets = config_.held_packets;
    fault.max_remotes = config_.remotes;
    fault.completions = 16384;
    if (config_.hook) {
      fault.hook = [this, index, i](const engine::FaultPacket& packet) {
        std::optional<engine::Fate> fate = config_.hook(index, i, packet);
        if (fate && fate->delay.ns == 0) fate->delay = kHookedDelay;
        return fate;
      };
    }
    const std::uint32_t in = config_.fabrics.empty() ? 0 : config_.fabrics[index][i];
    auto inner = std::make_unique<engine::MemoryNic>(fabric(in), memory, *node.pool);
    fault.move = [moved = inner.get()] { moved->move(); };
    auto nic = std::make_unique<engine::FaultNic>(std::move(inner), *node.pool, std::move(fault));
    REQUIRE_FALSE(nic->apply(config_.faults).has_value());
    nic->set_time(now_);
    nics.push_back(nic.get());
    if (config_.before_poll || config_.arrived || config_.knows_way || config_.way_bytes) {
      node.observed.push_back(std::make_unique<ObservedNic>(
          *nic,
          [this, index, i] {
            if (config_.before_poll) config_.before_poll(index, i);
          },
          config_.arrived));
      if (config_.knows_way) {
        node.observed.back()->knows_way = [this, index, i](const proto::NicAddress& remote) {
          return config_.knows_way(index, i, remote);
        };
      }
      if (config_.way_bytes) {
        node.observed.back()->way_bytes = [this, index, i](const proto::NicAddress& remote) {
          return config_.way_bytes(index, i, remote);
        };
      }
      nics.back() = node.observed.back().get();
    }
    node.nics.push_back(std::move(nic));
  }
  proto::EndpointConfig endpoint;
  endpoint.tunables = config_.tunables;
  if (config_.tune) config_.tune(index, endpoint.tunables);
  const std::uint64_t id = config_.ids.empty() ? index + 1 : config_.ids[index];
  endpoint.endpoint_id = node.id == 0 ? id : node.id;
  endpoint.epoch = config_.clocks_go_back ? kLatestEpoch - node.epoch : node.epoch;
  endpoint.seed = config_.seed * 77 + index + node.epoch * 1000;
  if (!config_.secrets.empty())
    endpoint.job_secret = std::as_bytes(std::span(config_.secrets[index]));
  if (config_.trace) {
    endpoint.trace = [](void* records, const TraceRecord& record) {
      static_cast<std::vector<TraceRecord>*>(records)->push_back(record);
    };
    endpoint.trace_context = &node.trace;
  }
  node.endpoint = std::make_unique<proto::Endpoint>(endpoint, nics, *node.pool);
  node.next_turn = now_;
  node.free_operations.clear();
  for (auto i = static_cast<std::uint32_t>(config_.tunables.max_operations); i-- > 0;) {
    node.free_operations.push_back(i);
  }
}

void World::crash(std::uint32_t index, bool restart) {
  Node& node = *nodes_[index];
  node.endpoint.reset();
  node.observed.clear();
  node.nics.clear();
  node.completions.clear();
  node.events.clear();
  ++node.epoch;
  std::ranges::fill(peers_[index], kAnyPeer);
  if (restart) build(index);
}

void World::replace(std::uint32_t index) {
  crash(index, false);
  nodes_[index]->id = config_.nodes * nodes_[index]->epoch + index + 1;
  for (std::vector<PeerId>& known : peers_) known[index] = kAnyPeer;
  build(index);
}

PeerId World::peer(std::uint32_t from, std::uint32_t to) {
  PeerId& peer = peers_[from][to];
  if (peer == kAnyPeer) {
    std::array<std::byte, proto::Endpoint::kMaxAddressBytes> blob;
    const std::size_t bytes = endpoint(to).write_address(blob);
    REQUIRE(endpoint(from).connect(now_, std::span(blob).first(bytes), peer) == Status::ok);
    nodes_[from]->next_turn = now_;
  }
  return peer;
}

void World::reconnect(std::uint32_t from, std::uint32_t to) {
  peers_[from][to] = kAnyPeer;
  (void)peer(from, to);
}

void World::connect_all() {
  for (std::uint32_t i = 0; i < config_.nodes; ++i) {
    for (std::uint32_t j = 0; j < config_.nodes; ++j) {
      if (i != j) (void)peer(i, j);
    }
  }
}

OperationId World::next_operation(std::uint32_t index) {
  Node& node = *nodes_[index];
  if (node.free_operations.empty()) return kNoOperation;
  return OperationId{++node.operations << 32 | node.free_operations.back()};
}

void World::took_operation(Node& node) {
  node.free_operations.pop_back();
  node.next_turn = now_;
}

template <class Post>
Status World::post_named(std::uint32_t node, OperationId& operation, Post&& post) {
  operation = next_operation(node);
  if (operation == kNoOperation) return Status::again;
  const Status status = post();
  if (status == Status::ok) took_operation(*nodes_[node]);
  return status;
}

Status World::post(std::uint32_t node, proto::SendRequest& request) {
  return post_named(node, request.operation, [&] { return endpoint(node).send(now_, request); });
}
Status World::post(std::uint32_t node, proto::ReceiveRequest& request) {
  return post_named(node, request.operation, [&] { return endpoint(node).receive(now_, request); });
}
Status World::post(std::uint32_t node, const WriteRequest& request, OperationId& operation) {
  return post_named(node, operation,
                    [&] { return endpoint(node).write(now_, operation, request); });
}
Status World::post(std::uint32_t node, const ReadRequest& request, OperationId& operation) {
  return post_named(node, operation, [&] { return endpoint(node).read(now_, operation, request); });
}
Status World::post(std::uint32_t node, const AtomicRequest& request, OperationId& operation) {
  return post_named(node, operation,
                    [&] { return endpoint(node).atomic(now_, operation, request); });
}
Status World::post(std::uint32_t node, const FlushRequest& request, OperationId& operation) {
  return post_named(node, operation,
                    [&] { return endpoint(node).flush_channel(now_, operation, request); });
}
Status World::withdraw(std::uint32_t node, RegionId region, OperationId& operation) {
  return post_named(node, operation,
                    [&] { return endpoint(node).withdraw(now_, region, operation, 0); });
}

Status World::cancel(std::uint32_t node, OperationId operation) {
  nodes_[node]->next_turn = now_;
  return endpoint(node).cancel(now_, operation);
}

void World::close(std::uint32_t node) {
  endpoint(node).close(now_);
  wake(node);
}

void World::disconnect(std::uint32_t node, std::uint32_t other) {
  REQUIRE(endpoint(node).disconnect(now_, peer(node, other)) == Status::ok);
  wake(node);
}

PeerStats World::peer_stats(std::uint32_t node, std::uint32_t other) {
  PeerStats stats;
  REQUIRE(endpoint(node).peer_stats(now_, peer(node, other), stats) == Status::ok);
  return stats;
}

OperationId World::send(std::uint32_t from, std::uint32_t to, std::uint64_t tag,
                        const std::string& bytes, const proto::SendOptions& options) {
  proto::SendRequest request;
  request.peer = peer(from, to);
  request.tag = tag;
  request.data = reinterpret_cast<const std::byte*>(bytes.data());
  request.bytes = bytes.size();
  request.options = options;
  REQUIRE(post(from, request) == Status::ok);
  return request.operation;
}

OperationId World::receive(std::uint32_t node, PeerId from, std::uint64_t tag, std::string& buffer,
                           std::uint64_t mask) {
  proto::ReceiveRequest request;
  request.peer = from;
  request.tag = tag;
  request.mask = mask;
  request.data = reinterpret_cast<std::byte*>(buffer.data());
  request.bytes = buffer.size();
  REQUIRE(post(node, request) == Status::ok);
  return request.operation;
}

void World::apply(std::uint32_t node, std::uint32_t index, std::string_view faults) {
  nic(node, index).set_time(now_);
  REQUIRE_FALSE(nic(node, index).apply(faults).has_value());
  wake(node);
}

void World::apply(std::uint32_t node, std::string_view faults) {
  for (std::uint32_t index = 0; index < nics(node); ++index) apply(node, index, faults);
}

void World::tell_of_ways(std::uint32_t node) {
  for (const auto& nic : nodes_[node]->observed) nic->have_ways_changed = true;
  wake(node);
}

void World::take_turn(Node& node) {
  ++turns_;
  for (auto& nic : node.nics) nic->set_time(now_);
  const HeapGuard guard;
  node.endpoint->begin_turn(now_);
  const proto::TurnResult result = node.endpoint->finish_turn(now_);
  allocations_ += guard.allocations();
  node.next_turn = now_ + kTurnCost;
  if (!result.progressed) {
    node.next_turn =
        result.wake_at == proto::kNever ? result.wake_at : result.wake_at + node.lateness;
  }
  // If turns did nothing about a deadline in the past, an idle endpoint would spin for ever.
  node.idle_turns = !result.progressed && result.wake_at <= now_ ? node.idle_turns + 1 : 0;
  if (node.idle_turns > 1000) FAIL("a timer is due, but the endpoint does not act for many turns");
  // Take a few at a time: most turns have none, and the array is made anew each time.
  std::array<Completion, 4> completions;
  for (std::size_t n = completions.size(); n == completions.size();) {
    n = node.endpoint->poll_completions(completions);
    for (std::size_t i = 0; i < n; ++i) {
      node.completions.push_back(completions[i]);
      if (!completions[i].released) continue;
      node.free_operations.push_back(static_cast<std::uint32_t>(completions[i].operation));
    }
  }
  if (node.leave_events) return;
  std::array<Event, 4> events;
  for (std::size_t n = events.size(); n == events.size();) {
    n = node.endpoint->poll_events(events);
    node.events.insert(node.events.end(), events.begin(), events.begin() + n);
  }
}

void World::step(proto::Time limit) {
  proto::Time next = limit;
  for (const auto& node : nodes_) {
    if (!node->endpoint) continue;
    if (!node->paused) next = proto::earlier(next, node->next_turn);
    for (const auto& nic : node->nics) {
      // Packets that are ready at a sleeping node wait for that node.
      const proto::Time release = nic->next_release();
      const bool sleeps = node->paused || node->lateness.ns > 0;
      if (!sleeps || release > now_) next = proto::earlier(next, release);
    }
  }
  now_ = proto::later(now_, next);
  bool released = false;
  const Node* releaser = nullptr;  // null: several
  for (auto& node : nodes_) {
    for (auto& nic : node->nics) {
      if (nic->next_release() > now_) continue;
      nic->set_time(now_);
      releaser = !released || releaser == node.get() ? node.get() : nullptr;
      released = true;
    }
  }
  for (auto& node : nodes_) {
    if (!node->endpoint || node->paused) continue;
    if (node->lateness.ns > 0 && released && releaser != node.get()) {
      node->next_turn = proto::earlier(node->next_turn, now_ + node->lateness);
    }
    if ((released && node->lateness.ns == 0) || node->next_turn <= now_) take_turn(*node);
  }
}

bool World::run_until(const std::function<bool()>& done, proto::Duration limit) {
  const proto::Time end = now_ + limit;
  while (!done()) {
    if (now_ >= end) return false;
    step(end);
  }
  return true;
}

bool World::run_until_completed(std::uint32_t node, std::size_t count, proto::Duration limit) {
  return run_until([&] { return completions(node).size() >= count; }, limit);
}

const Completion* World::completion(std::uint32_t node, OperationId operation) const {
  for (const Completion& completion : completions(node)) {
    if (completion.operation == operation) return &completion;
  }
  return nullptr;
}

}  // namespace hawser::test
