// SPDX-License-Identifier: Apache-2.0
// Several endpoints in one thread and in virtual time, joined by memory NICs with a fault NIC
// around each. Same configuration, same calls: same run.
//
// Time jumps to what is due next: a turn that an endpoint asked for, a packet that the fault layer
// releases, a packet that arrived. A paused node takes no turns; its NICs go on receiving. A late
// node sleeps longer than it wanted to, each time. A node may also be away in the middle of a turn
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

// The defaults, but for a few peers: taking the memory for hundreds takes longer than most tests.
[[nodiscard]] Tunables small_tunables();

struct WorldConfig {
  std::uint32_t nodes = 2;
  bool clocks_go_back = false;     // of a node that starts again: its epoch is an older one
  std::vector<std::uint64_t> ids;  // of the nodes' endpoints; none: they are counted from 1
  std::uint32_t nics = 1;
  std::vector<std::uint32_t> nics_of;  // per node, where they differ
  // Per node and NIC, the fabric that it is in: no NIC can address one of another fabric. None: all
  // are in one.
  std::vector<std::vector<std::uint32_t>> fabrics;
  Tunables tunables = small_tunables();
  std::string faults = "delay=5us";  // of every NIC; the delay is each packet's way
  std::uint64_t seed = 1;
  std::uint16_t entropies = 1;  // of every NIC
  std::uint32_t ring_slots = 1024;
  std::uint32_t control_slots = 1024;
  std::uint32_t held_packets = 4096;  // of each direction of a fault layer
  std::uint32_t remotes = 256;        // that a NIC has open at a time
  std::vector<std::string> secrets;   // of the job, per node; none: no MAC
  bool trace = false;
  // Fate of single packets, asked for each packet of each NIC. They are 5 us under way, as others
  // are, if the fate doesn't say how long: who gets them is woken by their release.
  std::function<std::optional<engine::Fate>(std::uint32_t node, std::uint32_t nic,
                                            const engine::FaultPacket&)>
      hook;
  // Called before a node polls the data queue of one of its NICs. May let the world run on: then
  // that node was away just there.
  std::function<void(std::uint32_t node, std::uint32_t nic)> before_poll;
  // Whether the driver of a node's NIC knows the way to an address.
  std::function<bool(std::uint32_t node, std::uint32_t nic, const proto::NicAddress&)> knows_way;
  // The longest datagram that the way of a node's NIC to an address carries whole.
  std::function<std::uint32_t(std::uint32_t node, std::uint32_t nic, const proto::NicAddress&)>
      way_bytes;
  // Called with what any NIC hands to its node. May mark it.
  std::function<void(std::span<proto::RxPacket>)> arrived;
};

// For short exchanges that are run a hundred times: to make a world takes as long as its memory is
// large, with sanitizers above all.
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
  // What the endpoint dropped for that reason.
  [[nodiscard]] std::uint64_t drops(std::uint32_t node, DropReason reason) {
    return stats(node).drops[static_cast<std::size_t>(reason)];
  }
  // What the node knows of the other, which must be known to it.
  [[nodiscard]] PeerStats peer_stats(std::uint32_t node, std::uint32_t other);
  [[nodiscard]] std::size_t buffers_in_use(std::uint32_t node) {
    return nodes_[node]->pool->in_use();
  }

  // Connects every node to every other.
  void connect_all();
  [[nodiscard]] PeerId peer(std::uint32_t from, std::uint32_t to);
  // Connects anew, with the present address of the other.
  void reconnect(std::uint32_t from, std::uint32_t to);
  // The endpoint goes without a word; with `restart`, a new one with another epoch takes its name.
  void crash(std::uint32_t node, bool restart);
  // The same, and another one of another name starts there.
  void replace(std::uint32_t node);
  void pause(std::uint32_t node, bool paused) {
    nodes_[node]->paused = paused;
    if (!paused) wake(node);
  }
  // From now on the node sleeps for so much longer, whatever should wake it.
  void set_lateness(std::uint32_t node, proto::Duration lateness) {
    nodes_[node]->lateness = lateness;
  }

  // Posts; the status must be ok. The bytes belong to the caller until the completion.
  OperationId send(std::uint32_t from, std::uint32_t to, std::uint64_t tag,
                   const std::string& bytes, const SendOptions& options = {});
  OperationId receive(std::uint32_t node, PeerId from, std::uint64_t tag, std::string& buffer,
                      std::uint64_t mask = ~std::uint64_t{0});
  // The same with all arguments, and whatever status comes of it; the name is filled in.
  [[nodiscard]] Status post(std::uint32_t node, proto::SendRequest& request);
  [[nodiscard]] Status post(std::uint32_t node, proto::ReceiveRequest& request);
  [[nodiscard]] Status cancel(std::uint32_t node, OperationId operation);
  void close(std::uint32_t node);
  // Ends the session from `node` to the other; the status must be ok.
  void disconnect(std::uint32_t node, std::uint32_t other);

  // The node takes a turn now: something happened that the world doesn't know of.
  void wake(std::uint32_t node) { nodes_[node]->next_turn = now_; }

  // Until `done` or for so long. True if `done` came true.
  bool run_until(const std::function<bool()>& done, proto::Duration limit);
  void run_for(proto::Duration time) {
    (void)run_until([] { return false; }, time);
  }
  // Until so many completions are there in all, at that node.
  bool run_until_completed(std::uint32_t node, std::size_t count, proto::Duration limit);

  [[nodiscard]] const std::vector<Completion>& completions(std::uint32_t node) const {
    return nodes_[node]->completions;
  }
  [[nodiscard]] const Completion* completion(std::uint32_t node, OperationId operation) const;
  [[nodiscard]] const std::vector<Event>& events(std::uint32_t node) const {
    return nodes_[node]->events;
  }
  // Whether the node's events stay in its endpoint.
  void leave_events(std::uint32_t node, bool leave) { nodes_[node]->leave_events = leave; }
  [[nodiscard]] const std::vector<TraceRecord>& trace(std::uint32_t node) const {
    return nodes_[node]->trace;
  }
  // A name that no operation has; kNoOperation if max_operations are in use.
  [[nodiscard]] OperationId next_operation(std::uint32_t node);
  [[nodiscard]] std::uint64_t turns() const { return turns_; }
  // What the endpoints and their NICs took from the heap in their turns.
  [[nodiscard]] std::uint64_t allocations() const { return allocations_; }
  // For NICs of the test's own.
  [[nodiscard]] const std::shared_ptr<engine::MemoryFabric>& fabric(std::uint32_t i = 0) {
    while (i >= fabrics_.size()) {
      fabrics_.push_back(std::make_shared<engine::MemoryFabric>("world", fabrics_.size() + 1));
    }
    return fabrics_[i];
  }
  [[nodiscard]] std::uint32_t nics(std::uint32_t node) const {
    return static_cast<std::uint32_t>(nodes_[node]->nics.size());
  }
  // Words of the fault grammar, for one NIC of a node or for each of them; they must be valid.
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

  WorldConfig config_;
  std::vector<std::shared_ptr<engine::MemoryFabric>> fabrics_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::vector<PeerId>> peers_;
  proto::Time now_{1000000000};
  std::uint64_t turns_ = 0;
  std::uint64_t allocations_ = 0;
};

}  // namespace hawser::test
