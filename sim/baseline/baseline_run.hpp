// SPDX-License-Identifier: Apache-2.0
// A connection matrix, carried out by a baseline's hosts. Their NICs are the transport, so the run
// models no protocol, processor or memory of a host.
//
// All that a node sends to another goes over one connection, which is up before anything begins. A
// NIC sends a packet when its cable is free, and serves its connections in turn. Packets that wait
// for their turn are not in flight. Retransmissions don't wait behind a window of other packets.
// Acks go at once, over the NIC at which their packet arrived. The fabric counts trimmed packets,
// and the hosts drop them.
#pragma once

#include <deque>

#include "sim/baseline/connection.hpp"
#include "sim/baseline/named.hpp"
#include "sim/baseline/qp_cache.hpp"
#include "sim/experiment/carrier.hpp"
#include "sim/fabric/network.hpp"
#include "sim/traffic/connection_matrix.hpp"
#include "sim/traffic/starter.hpp"

namespace hawser::baseline {

class BaselineRun final : public experiment::Carrier, public fabric::Receiver {
 public:
  // A host for each node, with its first `nics` NICs; it plugs itself into these. Throws
  // fabric::InputError if the fabric has too few of them or no room for headers, or if a connection
  // is too long. The network and the events outlive the run. No event may happen after the run is
  // gone, since pending events refer to it.
  BaselineRun(fabric::EventWheel& events, fabric::Network& network,
              const fabric::ConnectionMatrix& matrix, const Baseline& what, const Setup& setup = {},
              std::uint32_t nics = 1);

  // There are no sessions to wait for.
  [[nodiscard]] bool connect(fabric::Span) override { return true; }
  [[nodiscard]] bool run(fabric::Span most) override;
  [[nodiscard]] fabric::Instant begun() const override { return begun_; }
  [[nodiscard]] const experiment::FlowTimes& times(std::uint32_t flow) const override {
    return times_[flow];
  }
  [[nodiscard]] experiment::CarrierTotals totals() const override { return totals_; }
  [[nodiscard]] const std::vector<experiment::Accusation>* accusations() const override {
    return moves_ ? &accusations_ : nullptr;
  }

  // The fabric's round trip, in packets.
  [[nodiscard]] std::uint32_t round_trip() const { return round_trip_; }
  // The connection that a flow uses.
  [[nodiscard]] const Connection& connection(std::uint32_t flow) const {
    return connections_[connection_of_[flow]];
  }
  [[nodiscard]] const QpCache& cache(std::uint32_t port) const { return ports_[port].cache; }

  void on_packet(fabric::Instant now, fabric::PacketId id) override;

 private:
  struct Port {
    explicit Port(const ContextCache& settings) : cache(settings) {}
    std::deque<std::uint32_t> waiting;  // connections
    fabric::Instant free{};             // of what was sent last, at its own rate
    bool is_armed = false;
    bool is_sending = false;
    QpCache cache;
  };
  // One kind of event: its actor calls `Method` of the run.
  template <auto Method>
  struct Hook final : fabric::Actor {
    explicit Hook(BaselineRun& of) : run(of) {}
    void on_event(fabric::Instant now, std::uint32_t what) override { (run.*Method)(now, what); }
    BaselineRun& run;
  };

  void make_connections(const Baseline& what, std::uint32_t nodes);
  void start(std::uint32_t flow);
  void offer(std::uint32_t number);
  void serve(std::uint32_t port);
  [[nodiscard]] fabric::Instant free_at(std::uint32_t port) const;
  void send(std::uint32_t number, std::uint32_t port, std::uint32_t packet);
  void on_data(fabric::Instant now, fabric::PacketId id);
  void on_ack(fabric::Instant now, fabric::PacketId id);
  void arm(std::uint32_t number);
  void finish(std::uint32_t number);

  void on_port_free(fabric::Instant now, std::uint32_t port);
  void on_context_to_send(fabric::Instant now, fabric::PacketId id);
  void on_context_to_receive(fabric::Instant now, fabric::PacketId id);
  void on_timer(fabric::Instant now, std::uint32_t number);
  void on_moved(fabric::Instant now, std::uint32_t number);

  fabric::EventWheel& events_;
  fabric::Network& network_;
  fabric::Starter starter_;
  std::vector<fabric::Connection> flows_;
  Setup setup_;
  std::uint32_t nics_;
  std::uint32_t round_trip_;
  bool moves_;
  fabric::Span move_takes_;
  std::vector<Connection> connections_;
  std::vector<std::uint32_t> connection_of_;  // by flow
  std::vector<Port> ports_;
  std::vector<experiment::FlowTimes> times_;
  experiment::CarrierTotals totals_;
  std::vector<experiment::Accusation> accusations_;
  fabric::Instant begun_ = fabric::kNever;
  std::uint32_t ended_ = 0;  // flows
  bool failed_ = false;

  Hook<&BaselineRun::on_port_free> frees_{*this};
  Hook<&BaselineRun::on_context_to_send> contexts_to_send_{*this};
  Hook<&BaselineRun::on_context_to_receive> contexts_to_receive_{*this};
  Hook<&BaselineRun::on_timer> timers_{*this};
  Hook<&BaselineRun::on_moved> moved_{*this};
};

}  // namespace hawser::baseline
