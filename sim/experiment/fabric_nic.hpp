// SPDX-License-Identifier: Apache-2.0
// A NIC of the real protocol in a port of the fabric: the contract of proto/nic.hpp, with rings of
// fixed size, in virtual time. What is sent keeps its length and its headers and loses its payload:
// who receives finds bytes there that mean nothing.
//
// What a NIC holds is what 8192 of them can afford. Header buffers go back to the pool at once, as
// the fabric has copied them, so that all hosts can share one; what has come waits in a chain of
// the fabric's own records; and the views that rx_burst gives lie in slots that all NICs share, as
// only a host that is in the middle of a turn has any.
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

// Times of the fabric and of hosts' clocks, which count nanoseconds from kEpoch.
inline constexpr proto::Time kEpoch{1'000'000'000};
[[nodiscard]] inline proto::Time local_time(fabric::Instant at) {
  return kEpoch + proto::Duration{at.ps / 1000};
}
[[nodiscard]] inline fabric::Instant global_time(proto::Time at) {
  return fabric::Instant{} + fabric::nanoseconds((at - kEpoch).ns);
}

struct NicConfig {
  std::uint32_t max_datagram_bytes = 4096 + 256;
  // What a cable carries besides the datagram: of RoCE over IPv4, Ethernet's 38 bytes with
  // preamble, gap and check, IP's 20, UDP's 8, BTH's 12, DETH's 8 and the check's 4.
  std::uint32_t overhead_bytes = 90;
  std::uint16_t entropies = 128;
  bool tells_rate = true;  // its link's, to the protocol
  std::uint32_t send_slots = 512;
  std::uint32_t data_slots = 1024;  // receive rings
  std::uint32_t control_slots = 1024;
  bool urgent_control = true;  // the control queue has a class of its own in the fabric
};

struct NicCounters {
  std::uint64_t sent = 0;  // packets, as all of these
  std::uint64_t received = 0;
  std::uint64_t overruns = 0;
  std::uint64_t trimmed = 0;  // came without their payload, which the protocol can't use
};

// Places for received datagrams, of all NICs of an experiment.
class ViewSlots {
 public:
  explicit ViewSlots(std::uint32_t bytes) : words_((bytes + 7) / 8) {}
  // Its contents are arbitrary, but defined.
  [[nodiscard]] std::byte* take();
  void give(std::byte* slot) { free_.push_back(slot); }
  [[nodiscard]] std::size_t bytes() const { return words_ * 8; }
  [[nodiscard]] std::size_t lent() const { return slots_.size() - free_.size(); }
  // The most that were lent at once.
  [[nodiscard]] std::size_t made() const { return slots_.size(); }

 private:
  std::size_t words_;
  std::vector<std::unique_ptr<std::uint64_t[]>> slots_;
  std::vector<std::byte*> free_;
};

class FabricNic final : public proto::Nic, public fabric::Receiver {
 public:
  // `pool` and `slots` may be shared with others; the slots hold max_datagram_bytes each. `wake` is
  // called when something has come, a port event too.
  FabricNic(fabric::EventWheel& events, fabric::Network& network, std::uint32_t port,
            const NicConfig& config, proto::PacketPool& pool, ViewSlots& slots,
            std::function<void()> wake);
  ~FabricNic() override;
  FabricNic(const FabricNic&) = delete;
  FabricNic& operator=(const FabricNic&) = delete;

  // Nobody looks at views any more: a turn is over.
  void end_views();
  // When a turn would find something to reap that matters: room in a ring that was full, or else
  // that all has left. kNever if nothing is under way.
  [[nodiscard]] fabric::Instant next_reap() const;
  [[nodiscard]] const NicCounters& counters() const { return counters_; }

  void on_packet(fabric::Instant now, fabric::PacketId id) override;
  // A port event, as a driver has them.
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
    std::uint64_t bytes;  // that the cable had been given, this packet's included
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
  bool is_up_ = true;  // as the news have it
  NicCounters counters_;
};

}  // namespace hawser::experiment
