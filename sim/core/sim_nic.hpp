// SPDX-License-Identifier: Apache-2.0
// A NIC in a port of the fabric. It keeps the contract of proto/nic.hpp in virtual time, with its
// rings, and with all the faults that a NIC can show to its host.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "proto/base/random.hpp"
#include "proto/nic.hpp"
#include "sim/core/fabric.hpp"

namespace hawser::sim {

struct NicConfig {
  std::uint32_t max_datagram_bytes = 4096 + 128;
  std::uint32_t burst = 1;
  std::uint16_t entropies = 4;
  std::uint32_t send_slots = 256;
  std::uint32_t data_slots = 256;  // receive rings
  std::uint32_t control_slots = 64;
  bool needs_checksum = true;
};

// The way to a port carries at most this much in one piece.
struct NarrowWay {
  std::uint32_t port = 0;
  std::uint32_t bytes = 0;
};

struct NicFaults {
  bool dead = false;             // packets both ways are lost; sends are reaped all the same
  bool holds_sends = false;      // reaps nothing
  double partial_burst = 0;      // probability that a burst is cut short
  proto::Duration reap_delay{};  // after a packet has left
  std::uint32_t ring_slots = 0;  // the limit of a receive ring; 0: the ring's own size
  bool unresolved = false;       // it can't resolve addresses that it doesn't know yet
  double garbled = 0;            // probability that a frame is made impossible (lies.hpp)
  double forged = 0;             // probability that an intruder sends an impossible copy beside it
  bool is_signed = false;        // session packets have MACs
  std::vector<NarrowWay> narrow_ways{};
};

struct NicCounters {
  std::uint64_t overruns = 0;
  std::uint64_t partial_bursts = 0;
  std::uint64_t lost_dead = 0;
  std::uint64_t moves = 0;
  std::uint64_t fragmented = 0;  // longer than their way carries in one piece
};

// Which port answers to a NIC's address. A NIC that comes back may have another address. A process
// that is started again may have the one that its predecessor had.
class AddressBook {
 public:
  static constexpr std::uint32_t kNobody = 0xffffffffu;
  // Returns a number of its own.
  [[nodiscard]] std::uint32_t enter(std::uint32_t port) {
    ports_.push_back(port);
    last_ports_.push_back(port);
    return static_cast<std::uint32_t>(ports_.size() - 1);
  }
  void enter_again(std::uint32_t number, std::uint32_t port) {
    ports_[number] = last_ports_[number] = port;
  }
  void withdraw(std::uint32_t number) { ports_[number] = kNobody; }
  [[nodiscard]] bool is_known(std::uint32_t number) const { return number < ports_.size(); }
  [[nodiscard]] std::uint32_t port_of(std::uint32_t number) const { return ports_[number]; }
  // The port to which the way to the address leads, whether or not a NIC answers there.
  [[nodiscard]] std::uint32_t last_port_of(std::uint32_t number) const {
    return last_ports_[number];
  }

 private:
  std::vector<std::uint32_t> ports_;
  std::vector<std::uint32_t> last_ports_;
};

class SimNic final : public proto::Nic, public PortOwner {
 public:
  static constexpr std::uint32_t kOwnNumber = 0xffffffffu;

  // A NIC's port and address: `number` is the address of a NIC that is gone, or kOwnNumber. It can
  // address the NICs of its network.
  struct Place {
    std::uint32_t port = 0;
    std::uint32_t number = kOwnNumber;
    std::uint32_t network = 0;
  };

  // `wake` is called when something has come that a sleeping host must see.
  SimNic(EventQueue& events, Fabric& fabric, AddressBook& book, const Place& place,
         const NicConfig& config, proto::PacketPool& pool, std::uint64_t seed,
         std::function<void()> wake);
  ~SimNic() override;
  SimNic(const SimNic&) = delete;
  SimNic& operator=(const SimNic&) = delete;

  NicFaults faults;
  void tell(proto::NicEvent::Kind kind);
  // Whether the endpoint has not asked for an event yet.
  [[nodiscard]] bool has_untold() const { return !news_.empty(); }
  // The NIC has another address from now on; packets to the old one are lost.
  void move();
  [[nodiscard]] const NicCounters& counters() const { return counters_; }
  // Whether the NIC may still read a byte of these.
  [[nodiscard]] bool reads(const std::byte* data, std::size_t bytes) const;
  [[nodiscard]] std::uint32_t port() const { return port_; }
  [[nodiscard]] std::uint32_t number() const { return number_; }
  // When a send that has left will be reaped; kNever if none is in flight.
  [[nodiscard]] proto::Time next_reap() const;

  void on_frame(std::uint32_t frame) override;

  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] const proto::NicCaps& caps() const override { return caps_; }
  [[nodiscard]] const proto::NicAddress& address() const override { return address_; }
  [[nodiscard]] bool can_address(const proto::NicAddress& remote) const override;
  [[nodiscard]] Status open_remote(const proto::NicAddress& remote,
                                   proto::RemoteHandle& handle) override;
  void close_remote(proto::RemoteHandle handle) override;
  [[nodiscard]] std::uint32_t max_datagram_to(const proto::NicAddress& remote) override;
  [[nodiscard]] std::size_t tx_burst(std::span<const proto::TxPacket> packets) override;
  // This NIC gathers no packets. A turn, which begins with reap, must still have ended with a
  // flush.
  void flush() override { unflushed_ = false; }
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
    proto::PacketBuffer* buffer;
    std::uint64_t cookie;
    const std::byte* payload;
    std::uint32_t payload_bytes;
    proto::Time reapable;
  };
  struct ReceiveRing {
    std::deque<std::uint32_t> frames;
    std::vector<std::uint32_t> lent;  // views of these are lent
    std::uint32_t slots = 0;
  };

  void take_address(std::uint32_t number);
  [[nodiscard]] std::uint32_t way_bytes(std::uint32_t number) const;
  void intrude(std::uint32_t frame);
  [[nodiscard]] ReceiveRing& ring(proto::Queue queue) {
    return rings_[static_cast<std::size_t>(queue)];
  }

  EventQueue& events_;
  Fabric& fabric_;
  AddressBook& book_;
  std::uint32_t port_;
  std::uint32_t network_;
  NicConfig config_;
  proto::PacketPool& pool_;
  proto::Random random_;
  proto::Random intruder_;
  std::function<void()> wake_;
  std::string name_;
  proto::NicCaps caps_;
  proto::NicAddress address_;
  std::uint32_t number_ = 0;
  std::deque<Sent> sent_;
  std::array<ReceiveRing, 2> rings_;
  std::vector<proto::NicEvent> news_;
  bool unflushed_ = false;
  std::vector<std::uint32_t> openings_;  // by handle, which is the address's number
  NicCounters counters_;
};

}  // namespace hawser::sim
