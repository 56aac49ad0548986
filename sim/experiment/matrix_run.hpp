// SPDX-License-Identifier: Apache-2.0
// A connection matrix, carried out by hosts that run the protocol. Each connection is a message,
// sent at its start or when its trigger fires, to a receive that was posted before all began.
//
// Sessions come first: each pair exchanges a small message, as collectives do before their first
// step. Connections' starts count from the end of these exchanges. An endpoint's limits follow from
// its node's part in the matrix, so that neither a receiver from thousands nor a sender to one
// costs more than it needs. If the endpoint can't take a send yet (`again`), the node repeats it
// after a later turn, and makes its later sends after it.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "sim/experiment/carrier.hpp"
#include "sim/experiment/fabric_host.hpp"
#include "sim/traffic/connection_matrix.hpp"
#include "sim/traffic/starter.hpp"

namespace hawser::experiment {

// The same tunables, with limits for an endpoint with this many peers and operations at once.
[[nodiscard]] proto::AllTunables with_limits(proto::AllTunables tunables, std::uint64_t peers,
                                             std::uint64_t operations);

// Which operations carry a hint (Connection::hint).
enum class Hints : std::uint8_t { none, receives, all };

class MatrixRun final : public Carrier {
 public:
  static constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;  // of a connection

  // A host for each node, with the fabric's first ports, `nics` each. The run sets the ports,
  // limits and identity of `config` itself. Throws fabric::InputError if the fabric has too few
  // ports, or a connection is too long. The share's slots and events outlive the run. No event may
  // happen after the run is gone.
  MatrixRun(const HostsShare& share, const fabric::ConnectionMatrix& matrix,
            const HostConfig& config, std::uint32_t nics = 1, Hints hints = Hints::all);

  // Runs until all sessions are up.
  [[nodiscard]] bool connect(fabric::Span most) override;
  [[nodiscard]] bool run(fabric::Span most) override;

  [[nodiscard]] fabric::Instant begun() const override { return begun_; }
  [[nodiscard]] const FlowTimes& times(std::uint32_t connection) const override {
    return times_[connection];
  }
  [[nodiscard]] CarrierTotals totals() const override;
  [[nodiscard]] const std::vector<Accusation>* accusations() const override {
    return &accusations_;
  }

  [[nodiscard]] FabricHost& host(std::uint32_t node) { return *nodes_[node].host; }
  [[nodiscard]] std::uint32_t hosts() const { return static_cast<std::uint32_t>(nodes_.size()); }

 private:
  struct Node {
    std::unique_ptr<FabricHost> host;
    std::unordered_map<std::uint32_t, PeerId> peers;         // by node
    std::vector<std::uint32_t> free;                         // operations
    std::vector<std::uint32_t> flows;                        // by operation
    std::vector<std::uint32_t> delayed;                      // flows whose send got `again`
    std::set<std::pair<std::uint32_t, std::uint32_t>> left;  // paths, by their ports
  };
  void add_greetings();
  void make_hosts(const HostsShare& share, const HostConfig& config, std::uint32_t nics);
  void make_peers();
  [[nodiscard]] OperationId name(Node& node, std::uint32_t flow);
  void post(std::uint32_t flow);
  void start(std::uint32_t flow);
  [[nodiscard]] bool try_send(std::uint32_t flow);
  void collect(std::uint32_t node);
  void hear_of_paths(std::uint32_t node);
  void complete(std::uint32_t flow, const Completion& completion);
  [[nodiscard]] bool wait(fabric::Span most, std::uint64_t ends);

  fabric::EventWheel& events_;
  fabric::Starter starter_;
  std::uint32_t connections_;  // flows below are the matrix's, those above greet
  std::vector<fabric::Connection> flows_;
  std::vector<FlowTimes> times_;
  std::vector<Node> nodes_;
  std::vector<std::byte> memory_;  // all messages are read from and written to it
  fabric::Instant begun_ = fabric::kNever;
  Hints hints_;
  const fabric::Wiring& wiring_;
  std::vector<Accusation> accusations_;
  std::uint64_t ends_ = 0;  // completions
  bool failed_ = false;
};

}  // namespace hawser::experiment
