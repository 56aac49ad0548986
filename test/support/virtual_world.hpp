// SPDX-License-Identifier: Apache-2.0
// Several endpoints in one thread and in virtual time, joined by memory NICs with a fault NIC
// around each. The same configuration and the same calls give the same run.
//
// Time jumps to the next event: a turn that an endpoint asked for, a packet that the fault layer
// releases, a packet that arrived. A paused node takes no turns, but its NICs go on receiving. A
// late node always sleeps longer than it wanted to. A node may also be away in the middle of a turn
// (WorldConfig::before_poll).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/driver/fault/fault_nic.hpp"
#include "engine/driver/memory/memory_nic.hpp"
#include "hawser/types.hpp"
#include "proto/endpoint.hpp"
#include "test/support/observed_nic.hpp"
#include "test/support/pattern.hpp"
#include "test/support/simple_pool.hpp"

namespace hawser::test {

// The defaults, but for few peers: taking the memory for hundreds takes longer than most tests.
[[nodiscard]] proto::AllTunables small_tunables();

struct WorldConfig {
  std::uint32_t nodes = 2;
  bool clocks_go_back = false;     // a node that restarts gets an older epoch
  std::vector<std::uint64_t> ids;  // of the nodes' endpoints; empty: counted from 1
  std::uint32_t nics = 1;
  std::vector<std::uint32_t> nics_of;  // per node, if they differ
  // The fabric of each NIC of each node: no NIC can address one of another fabric. If empty, all
  // are in one fabric.
  std::vector<std::vector<std::uint32_t>> fabrics;
  proto::AllTunables tunables = small_tunables();
  std::function<void(std::uint32_t node, proto::AllTunables&)> tune;  // where a node's differ
  std::string faults = "delay=5us";  // of every NIC; each packet takes this delay
  std::uint64_t seed = 1;
  std::uint16_t entropies = 1;  // of every NIC
  std::uint32_t ring_slots = 1024;
  std::uint32_t control_slots = 1024;
  std::uint32_t held_packets = 4096;  // of each direction of a fault layer
  std::uint32_t remotes = 256;        // that a NIC has open at a time
  std::vector<std::string> secrets;   // of the job, per node; empty: no MAC
  bool trace = false;
  // Gives the fate of single packets, asked for each packet of each NIC. If the fate gives no
  // delay, the packet takes 5 us, as others do: its release wakes the receiver.
  std::function<std::optional<engine::Fate>(std::uint32_t node, std::uint32_t nic,
                                            const engine::FaultPacket&)>
      hook;
  // Called before a node polls the data queue of one of its NICs. It may let the world run on; the
  // node is then away at this moment.
  std::function<void(std::uint32_t node, std::uint32_t nic)> before_poll;
  // Whether the driver of a node's NIC has resolved an address.
  std::function<bool(std::uint32_t node, std::uint32_t nic, const proto::NicAddress&)> knows_way;
  // The longest datagram that the route of a node's NIC to an address carries whole.
  std::function<std::uint32_t(std::uint32_t node, std::uint32_t nic, const proto::NicAddress&)>
      way_bytes;
  // Called with the packets that any NIC hands to its node. May mark them.
  std::function<void(std::span<proto::RxPacket>)> arrived;
};

// For short exchanges that run a hundred times: making a world takes time in proportion to its
// memory, with sanitizers above all.
[[nodiscard]] WorldConfig tiny_world();

class World {
 public:
  explicit World(WorldConfig config);
  ~World();

  [[nodiscard]] proto::Endpoint& endpoint(std::uint32_t node) { return *nodes_[node]->endpoint; }
  [[nodiscard]] engine::FaultNic& nic(std::uint32_t node, std::uint32_t nic) {
    return *nodes_[node]->nics[nic];
  }
  [[nodiscard]] std::uint32_t nodes() const { return static_cast<std::uint32_t>(nodes_.size()); }
  // False after a crash without restart.
  [[nodiscard]] bool is_running(std::uint32_t node) const {
    return nodes_[node]->endpoint != nullptr;
  }
  [[nodiscard]] proto::Time now() const { return now_; }
  [[nodiscard]] EndpointStats stats(std::uint32_t node) { return endpoint(node).stats(); }
  // How many packets the endpoint dropped for that reason.
  [[nodiscard]] std::uint64_t drops(std::uint32_t node, DropReason reason) {
    return stats(node).drops[static_cast<std::size_t>(reason)];
  }
  // The node's statistics of the other one, which it must know.
  [[nodiscard]] PeerStats peer_stats(std::uint32_t node, std::uint32_t other);
  [[nodiscard]] std::size_t buffers_in_use(std::uint32_t node) {
    return nodes_[node]->pool->in_use();
  }

  // Connects every node to every other.
  void connect_all();
  [[nodiscard]] PeerId peer(std::uint32_t from, std::uint32_t to);
  // Connects anew, with the present address of the other node.
  void reconnect(std::uint32_t from, std::uint32_t to);
  // The endpoint vanishes without a message. With `restart`, a new one of the same name and another
  // epoch takes its place.
  void crash(std::uint32_t node, bool restart);
  // The same, but an endpoint of another name starts there.
  void replace(std::uint32_t node);
  void pause(std::uint32_t node, bool paused) {
    nodes_[node]->paused = paused;
    if (!paused) wake(node);
  }
  // From now on the node sleeps for so much longer, whatever should wake it.
  void set_lateness(std::uint32_t node, proto::Duration lateness) {
    nodes_[node]->lateness = lateness;
  }

  // Posts an operation; the status must be ok. The caller owns the bytes until the completion.
  OperationId send(std::uint32_t from, std::uint32_t to, std::uint64_t tag,
                   const std::string& bytes, const proto::SendOptions& options = {});
  OperationId receive(std::uint32_t node, PeerId from, std::uint64_t tag, std::string& buffer,
                      std::uint64_t mask = ~std::uint64_t{0});
  // Posts with all arguments and returns any status. The name of the operation is filled in.
  [[nodiscard]] Status post(std::uint32_t node, proto::SendRequest& request);
  [[nodiscard]] Status post(std::uint32_t node, proto::ReceiveRequest& request);
  [[nodiscard]] Status post(std::uint32_t node, const WriteRequest& request,
                            OperationId& operation);
  [[nodiscard]] Status post(std::uint32_t node, const ReadRequest& request, OperationId& operation);
  [[nodiscard]] Status post(std::uint32_t node, const AtomicRequest& request,
                            OperationId& operation);
  [[nodiscard]] Status post(std::uint32_t node, const FlushRequest& request,
                            OperationId& operation);
  template <class OneSidedRequest>
  [[nodiscard]] Status post(std::uint32_t node, const OneSidedRequest& request) {
    OperationId operation{};
    return post(node, request, operation);
  }
  [[nodiscard]] Status withdraw(std::uint32_t node, RegionId region, OperationId& operation);
  [[nodiscard]] Status cancel(std::uint32_t node, OperationId operation);
  void close(std::uint32_t node);
  // Ends the session from `node` to the other node; the status must be ok.
  void disconnect(std::uint32_t node, std::uint32_t other);

  // The drivers of the node, whose ways the configuration gives, say that the ways have changed.
  void tell_of_ways(std::uint32_t node);

  // Makes the node take a turn now, for an event that the world doesn't know of.
  void wake(std::uint32_t node) { nodes_[node]->next_turn = now_; }

  // Runs until `done` or for `limit`. True if `done` became true.
  bool run_until(const std::function<bool()>& done, proto::Duration limit);
  void run_for(proto::Duration time) {
    (void)run_until([] { return false; }, time);
  }
  // Runs until that node has `count` completions in all.
  bool run_until_completed(std::uint32_t node, std::size_t count, proto::Duration limit);

  [[nodiscard]] const std::vector<Completion>& completions(std::uint32_t node) const {
    return nodes_[node]->completions;
  }
  [[nodiscard]] const Completion* completion(std::uint32_t node, OperationId operation) const;
  [[nodiscard]] const std::vector<Event>& events(std::uint32_t node) const {
    return nodes_[node]->events;
  }
  // Drops the completions and events that the node has had, for runs of many thousand operations.
  void forget_past(std::uint32_t node) {
    nodes_[node]->completions.clear();
    nodes_[node]->events.clear();
  }
  // Whether the node's events stay in its endpoint.
  void leave_events(std::uint32_t node, bool leave) { nodes_[node]->leave_events = leave; }
  [[nodiscard]] const std::vector<TraceRecord>& trace(std::uint32_t node) const {
    return nodes_[node]->trace;
  }
  // An operation name that is free; kNoOperation if max_operations are in use.
  [[nodiscard]] OperationId next_operation(std::uint32_t node);
  [[nodiscard]] std::uint64_t turns() const { return turns_; }
  // How many allocations the endpoints and their NICs made in their turns.
  [[nodiscard]] std::uint64_t allocations() const { return allocations_; }
  // For NICs that the test makes itself.
  [[nodiscard]] const std::shared_ptr<engine::MemoryFabric>& fabric(std::uint32_t i = 0) {
    while (i >= fabrics_.size()) {
      fabrics_.push_back(std::make_shared<engine::MemoryFabric>("world", fabrics_.size() + 1));
    }
    return fabrics_[i];
  }
  [[nodiscard]] std::uint32_t nics(std::uint32_t node) const {
    return static_cast<std::uint32_t>(nodes_[node]->nics.size());
  }
  // Applies words of the fault grammar, which must be valid, to one NIC of a node or to all.
  void apply(std::uint32_t node, std::uint32_t nic, std::string_view faults);
  void apply(std::uint32_t node, std::string_view faults);

 private:
  struct Node {
    std::unique_ptr<SimplePool> pool;
    std::vector<std::unique_ptr<engine::FaultNic>> nics;
    std::vector<std::unique_ptr<ObservedNic>> observed;
    std::unique_ptr<proto::Endpoint> endpoint;
    std::vector<Completion> completions;
    std::vector<Event> events;
    std::vector<TraceRecord> trace;
    proto::Time next_turn{};
    std::uint32_t idle_turns = 0;
    std::vector<std::uint32_t> free_operations;  // indices
    std::uint64_t operations = 0;
    std::uint64_t epoch = 1;
    std::uint64_t id = 0;
    bool paused = false;
    proto::Duration lateness{};
    bool leave_events = false;
  };

  void build(std::uint32_t node);
  void step(proto::Time limit);
  void take_turn(Node& node);
  void took_operation(Node& node);
  template <class Post>
  Status post_named(std::uint32_t node, OperationId& operation, Post&& post);

  WorldConfig config_;
  std::vector<std::shared_ptr<engine::MemoryFabric>> fabrics_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::vector<PeerId>> peers_;
  proto::Time now_{1000000000};
  std::uint64_t turns_ = 0;
  std::uint64_t allocations_ = 0;
};

}  // namespace hawser::test
