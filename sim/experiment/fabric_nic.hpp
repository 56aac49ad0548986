// SPDX-License-Identifier: Apache-2.0
// A NIC of the real protocol in a port of the fabric: the contract of proto/nic.hpp, with rings of
// fixed size, in virtual time. A packet keeps its length and its headers and loses its payload: the
// receiver finds meaningless bytes there.
//
// A NIC is small enough that 8192 of them fit in memory. Header buffers go back to the pool at
// once, since the fabric has copied them, so all hosts can share one pool. Received packets wait in
// a chain of the fabric's own records. The views that rx_burst gives lie in slots that all NICs
// share, since only a host in the middle of a turn holds any.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "proto/nic.hpp"
#include "sim/fabric/network.hpp"

namespace hawser::experiment {

// Converts times of the fabric to those of hosts' clocks, which count nanoseconds from kEpoch.
inline constexpr proto::Time kEpoch{1'000'000'000};
[[nodiscard]] inline proto::Time local_time(fabric::Instant at) {
  return kEpoch + proto::Duration{at.ps / 1000};
}
[[nodiscard]] inline fabric::Instant global_time(proto::Time at) {
  return fabric::Instant{} + fabric::nanoseconds((at - kEpoch).ns);
}

struct NicConfig {
  std::uint32_t max_datagram_bytes = 4096 + 256;
  // The bytes that a cable carries besides the datagram. For RoCE over IPv4 these are Ethernet's 38
  // bytes with preamble, gap and check, IP's 20, UDP's 8, BTH's 12, DETH's 8 and the check's 4.
  std::uint32_t overhead_bytes = 90;
  std::uint16_t entropies = 128;
  bool tells_rate = true;  // tells the protocol its link's rate
  std::uint32_t send_slots = 512;
  std::uint32_t data_slots = 1024;  // receive rings
  std::uint32_t control_slots = 1024;
  bool urgent_control = true;  // the control queue has a class of its own in the fabric
};

struct NicCounters {
  std::uint64_t sent = 0;  // packets, as all of these
  std::uint64_t received = 0;
  std::uint64_t overruns = 0;
  std::uint64_t trimmed = 0;  // came without their payload, so the protocol can't use them
};

// Slots for received datagrams, for all NICs of an experiment.
class ViewSlots {
 public:
  explicit ViewSlots(std::uint32_t bytes) : words_((bytes + 7) / 8) {}
  // The contents are arbitrary, but defined.
  [[nodiscard]] std::byte* take();
  void give(std::byte* slot) { free_.push_back(slot); }
  [[nodiscard]] std::size_t bytes() const { return words_ * 8; }
  [[nodiscard]] std::size_t lent() const { return slots_.size() - free_.size(); }
  // The most slots that were lent at once.
  [[nodiscard]] std::size_t made() const { return slots_.size(); }

 private:
  std::size_t words_;
  std::vector<std::unique_ptr<std::uint64_t[]>> slots_;
  std::vector<std::byte*> free_;
};

class FabricNic final : public proto::Nic, public fabric::Receiver {
 public:
  // `pool` and `slots` may be shared with others; each slot holds max_datagram_bytes. `wake` is
  // called when a packet or a port event has come.
  FabricNic(fabric::EventWheel& events, fabric::Network& network, std::uint32_t port,
            const NicConfig& config, proto::PacketPool& pool, ViewSlots& slots,
            std::function<void()> wake);
  ~FabricNic() override;
  FabricNic(const FabricNic&) = delete;
  FabricNic& operator=(const FabricNic&) = delete;

  // A turn is over, so no view is in use any more.
  void end_views();
  // When a turn would find a completed send that matters: room in a ring that was full, or else the
  // end of all sends. kNever if nothing is in flight.
  [[nodiscard]] fabric::Instant next_reap() const;
  [[nodiscard]] const NicCounters& counters() const { return counters_; }

  void on_packet(fabric::Instant now, fabric::PacketId id) override;
  // The port event that a driver would report.
  void on_cable(fabric::Instant now, bool is_up) override;

  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] const proto::NicCaps& caps() const override { return caps_; }
  [[nodiscard]] const proto::NicAddress& address() const override { return address_; }
  [[nodiscard]] Status open_remote(const proto::NicAddress& remote,
                                   proto::RemoteHandle& handle) override;
  void close_remote(proto::RemoteHandle) override {}  // a handle is a port's number
  [[nodiscard]] std::size_t tx_burst(std::span<const proto::TxPacket> packets) override;
  [[nodiscard]] std::size_t reap(std::span<std::uint64_t> cookies) override;
  [[nodiscard]] std::size_t rx_burst(proto::Queue queue,
                                     std::span<proto::RxPacket> packets) override;
  [[nodiscard]] std::size_t events(std::span<proto::NicEvent> events) override;
  [[nodiscard]] std::uint64_t overruns() const override { return counters_.overruns; }
  [[nodiscard]] std::size_t descriptors(std::span<int>) const override { return 0; }
  [[nodiscard]] Status register_memory(const void*, std::size_t) override { return Status::ok; }
  void deregister_memory(const void*, std::size_t) override {}

 private:
  struct Sent {
    std::uint64_t cookie;
    std::uint64_t bytes;  // the cable's total, this packet included
  };
  struct ReceiveRing {
    fabric::PacketId first = fabric::kNoPacket;  // a chain by Packet::next
    fabric::PacketId last = fabric::kNoPacket;
    std::uint32_t count = 0;
    std::uint32_t slots = 0;
    std::vector<std::byte*> lent;
  };
  [[nodiscard]] const fabric::Link& cable() const;
  [[nodiscard]] fabric::Instant left(const Sent& sent) const;
  [[nodiscard]] ReceiveRing& ring(proto::Queue queue) {
    return rings_[static_cast<std::size_t>(queue)];
  }
  void send(const proto::TxPacket& packet);
  void end_views(ReceiveRing& ring);
  [[nodiscard]] const Sent& sent(std::uint32_t n) const {
    return sent_[(first_sent_ + n) % sent_.size()];
  }

  fabric::EventWheel& events_;
  fabric::Network& network_;
  std::uint32_t port_;
  NicConfig config_;
  proto::PacketPool& pool_;
  ViewSlots& slots_;
  std::function<void()> wake_;
  std::string name_;
  proto::NicCaps caps_;
  proto::NicAddress address_;
  std::vector<Sent> sent_;  // a ring
  std::uint32_t first_sent_ = 0;
  std::uint32_t sent_count_ = 0;
  bool was_full_ = false;
  std::array<ReceiveRing, 2> rings_;
  std::vector<proto::NicEvent> news_;
  bool is_up_ = true;  // as the last port event said
  NicCounters counters_;
};

}  // namespace hawser::experiment
