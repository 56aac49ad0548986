// SPDX-License-Identifier: Apache-2.0
// An endpoint without its thread: NICs, fault layers, packet pool and the protocol over them. Only
// one thread at a time may use it, the one that makes its progress. Any thread may call post_fault.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/driver/fault/fault_nic.hpp"
#include "engine/driver/udp/udp_look.hpp"
#include "engine/packet_pool.hpp"
#include "engine/registration/endpoint_memory.hpp"
#include "engine/settings.hpp"
#include "engine/way_news.hpp"
#include "hawser/engine.hpp"
#include "proto/endpoint.hpp"
#include "proto/region/host_placement.hpp"

namespace hawser::engine {

class EndpointBody {
 public:
  // Opens the NICs and allocates all memory. Throws hawser::Error.
  EndpointBody(const EngineSettings& settings, const EndpointConfig& config);
  ~EndpointBody();
  EndpointBody(const EndpointBody&) = delete;
  EndpointBody& operator=(const EndpointBody&) = delete;

  [[nodiscard]] proto::Endpoint& protocol() { return *protocol_; }
  [[nodiscard]] const proto::Endpoint& protocol() const { return *protocol_; }
  [[nodiscard]] const Address& address() const { return address_; }
  [[nodiscard]] const Tunables& tunables() const { return tunables_; }

  // As the protocol's send. The cache may register the memory for the next send. Also returns
  // invalid_argument if only a part of the memory lies in a dma-buf, or any of a list's.
  [[nodiscard]] Status send(proto::Time now, const proto::SendRequest& request) {
    using Place = Registrations::Place;
    if (request.pieces != nullptr) return send_pieces(now, request);
    const Place place = memory_->registrations().place_of(request.data, request.bytes);
    if (place == Place::torn) return Status::invalid_argument;
    proto::SendRequest asked = request;
    asked.readable = place != Place::dmabuf;
    const Status status = protocol_->send(now, asked);
    if (status == Status::ok && place == Place::elsewhere) {
      memory_->send(request.data, request.bytes);
    }
    return status;
  }
  // As the protocol's, likewise.
  [[nodiscard]] Status write(proto::Time now, OperationId operation, const WriteRequest& request);
  // As the protocol's, for host memory: invalid_argument if some of it lies in a dma-buf.
  [[nodiscard]] Status expose(const ExposeRequest& request, RegionId& region);
  [[nodiscard]] Registrations& registrations() { return memory_->registrations(); }

  // progress runs one turn: posted faults, packets whose delay is over, the protocol's turn. Its
  // wake_at covers all three, and NICs without a descriptor, which must be polled again before
  // long. Between turns, transmit sends what may leave.
  void transmit(proto::Time now);
  proto::TurnResult progress(proto::Time now);

  // Readable when a NIC has received something since arm(). Nobody may wait for them once the
  // protocol is closed: its turns don't read the NICs any more, so they may stay readable.
  [[nodiscard]] std::span<const int> descriptors() const { return descriptors_; }
  // Call it before each time that a thread blocks on the descriptors. True: something may have
  // arrived just before, so another turn must come first. A closed protocol needs none.
  [[nodiscard]] bool arm();

  [[nodiscard]] bool has_posted_faults() const {
    return has_posted_.load(std::memory_order_acquire);
  }
  // For any thread. Explains in a sentence why the NIC can't do what `spec` asks for; empty if it
  // can.
  [[nodiscard]] std::string complaint_about_fault(std::size_t nic, std::string_view spec) const;
  // For any thread. The next progress applies `spec` to the NIC. complaint_about_fault must have
  // accepted it.
  void post_fault(std::size_t nic, std::string_view spec);

  [[nodiscard]] EndpointStats stats() const;
  [[nodiscard]] std::vector<NicStats> nic_stats() const;
  [[nodiscard]] std::vector<Verdict> verdicts() const;

 private:
  [[nodiscard]] Status send_pieces(proto::Time now, const proto::SendRequest& request);
  void open_nic(const NicSpec& spec, const EngineSettings& settings);
  void add_fault_layer(std::unique_ptr<proto::Nic> driver, const EngineSettings& settings);
  void apply_posted_faults();
  void warn() const;

  Tunables tunables_;
  // The order of construction matters: later members use earlier ones.
  std::unique_ptr<EndpointPool> pool_;
  std::vector<std::unique_ptr<proto::Nic>> nics_;  // as the protocol sees them
  std::vector<FaultNic*> faults_;                  // the same NICs, or empty without a fault layer
  UdpLook look_;
  WayNews way_news_;
  proto::Time due_{};  // when the protocol wanted its next turn
  std::unique_ptr<EndpointMemory> memory_;
  proto::HostPlacement host_memory_;
  std::unique_ptr<proto::Endpoint> protocol_;
  Address address_;
  std::vector<int> descriptors_;
  bool some_nic_is_silent_ = false;  // it has no descriptor and must be polled

  std::mutex posted_mutex_;
  std::vector<std::pair<std::size_t, std::string>> posted_;
  std::atomic<bool> has_posted_{false};
};

}  // namespace hawser::engine
