// SPDX-License-Identifier: Apache-2.0
// The memory NIC: datagrams between the engines of one process, through rings in memory. It serves
// to measure the cost of the engine itself, and to test the protocol.
//
// A sender copies the header and a short payload straight into the receiver's ring. If the receiver
// wants views, it gets a view of a longer payload instead. Such a payload is copied only once, from
// the sender's memory to its destination. The send ends when the receiver has returned the view, or
// is gone.
//
// A sender must not depend on its receivers, as it would not with a device. If its ring of sends is
// full, or if it has waited for views too long, it copies the payloads that the receiver hasn't
// seen. The receiver returns those that it has seen within its turn. A send becomes reapable only
// with the next reap, so that users can't come to rely on earlier completion.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/driver/memory/memory_fabric.hpp"
#include "engine/driver/remote_table.hpp"
#include "proto/base/ring.hpp"
#include "proto/nic.hpp"

namespace hawser::engine {

struct MemoryNicConfig {
  std::uint32_t max_datagram_bytes = 4096 + proto::PacketBuffer::kBytes;
  std::uint32_t datagram_bytes = 4096 + 64;  // size of a full packet, for caps().receive_bytes
  std::uint32_t data_slots = 1024;     // datagrams that the data ring holds; later ones are lost
  std::uint32_t control_slots = 1024;  // the same for control
  std::uint32_t send_slots = 1024;     // sends between tx_burst and reap; more meet back-pressure
  std::uint32_t max_remotes = 256;
  std::uint16_t entropies = 1;  // reported entropies; all take the same path
  bool needs_checksum = false;  // true: behave as a fabric without an end-to-end check
};

class MemoryNic final : public proto::Nic {
 public:
  // A payload of fewer bytes is copied, which costs less than passing a view between two threads.
  static constexpr std::uint32_t kLentBytes = 1024;
  // Calls of reap in a row that find the oldest view still out before payloads are copied. An idle
  // turn calls reap once. The limit therefore takes tens of microseconds while polling, and a
  // quarter of a second while sleeping.
  static constexpr std::uint32_t kPatience = 128;

  // `pool` outlives the NIC. Throws hawser::Error if the configuration makes no sense.
  MemoryNic(std::shared_ptr<MemoryFabric> fabric, const MemoryNicConfig& config,
            proto::PacketPool& pool);
  // Waits for receivers in other threads that are reading a payload right now.
  ~MemoryNic() override;
  MemoryNic(const MemoryNic&) = delete;
  MemoryNic& operator=(const MemoryNic&) = delete;

  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] const proto::NicCaps& caps() const override { return caps_; }
  [[nodiscard]] const proto::NicAddress& address() const override { return address_; }
  [[nodiscard]] bool can_address(const proto::NicAddress& remote) const override;
  [[nodiscard]] Status open_remote(const proto::NicAddress& remote,
                                   proto::RemoteHandle& handle) override;
  void close_remote(proto::RemoteHandle handle) override;
  [[nodiscard]] std::size_t tx_burst(std::span<const proto::TxPacket> packets) override;
  [[nodiscard]] std::size_t reap(std::span<std::uint64_t> cookies) override;
  [[nodiscard]] std::size_t rx_burst(proto::Queue queue,
                                     std::span<proto::RxPacket> packets) override;
  [[nodiscard]] std::size_t events(std::span<proto::NicEvent>) override { return 0; }
  [[nodiscard]] std::uint64_t overruns() const override;
  [[nodiscard]] std::size_t descriptors(std::span<int>) const override { return 0; }
  [[nodiscard]] Status register_memory(const void*, std::size_t) override { return Status::ok; }
  void deregister_memory(const void*, std::size_t) override {}
  // No effect if datagrams have a checksum, which covers the datagram in one piece.
  void take_views() override;

  // Takes another address, as if the NIC had been replaced. Datagrams sent to the old address and
  // not received yet are lost. The owner reports the change by an event. Allocates.
  void move();

 private:
  struct Send {
    proto::PacketBuffer* buffer = nullptr;
    std::uint64_t cookie = proto::TxPacket::kNoCookie;
    DatagramRing* lent_to = nullptr;     // the ring whose receiver may read the payload
    std::uint64_t position = 0;          // in that ring
    std::shared_ptr<MemoryPort> port{};  // set in the last send to a closed remote: keeps its ring
  };

  void deliver(const proto::TxPacket& packet, Send& send);
  // True if the send is over. Copies its payload if the receiver has kept it too long.
  [[nodiscard]] bool is_over(const Send& send, bool impatient, std::uint32_t& budget);

  std::shared_ptr<MemoryFabric> fabric_;
  MemoryNicConfig config_;
  proto::PacketPool& pool_;
  std::string name_;
  proto::NicCaps caps_;
  std::shared_ptr<MemoryPort> port_;
  proto::NicAddress address_;
  RemoteTable remotes_;
  std::vector<std::shared_ptr<MemoryPort>> remote_ports_;  // by handle
  proto::Ring<Send> sends_;
  std::uint32_t waits_ = 0;            // calls of reap since a receiver last returned a view
  std::uint64_t overruns_before_ = 0;  // in the ports before the last move
};

}  // namespace hawser::engine
