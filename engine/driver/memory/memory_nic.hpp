// SPDX-License-Identifier: Apache-2.0
// The memory NIC: datagrams between the engines of one process, through rings in memory. What the
// engine itself costs is measured on it, and the protocol is tested on it.
//
// A sender copies the header, and a payload that isn't worth more, straight into the receiver's
// ring. Of other payloads a receiver that wants it gets a view: of them a byte moves once, from
// where it was sent to where it was wanted. Such a send is over when the receiver has given the
// view back, or is gone. Who sends isn't at the mercy of that, as it would not be with a device:
// where its ring of sends is full, or view after view is waited for in vain, it copies what the
// receiver hasn't seen. What the receiver has seen it gives back within its turn. A send counts as
// reapable only with the next reap, so that users can't come to rely on earlier.
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
  std::uint32_t datagram_bytes = 4096 + 64;  // of a full packet, to tell caps().receive_bytes
  std::uint32_t data_slots = 1024;  // datagrams that the data ring holds; beyond it they are lost
  std::uint32_t control_slots = 1024;  // the same for control
  std::uint32_t send_slots = 1024;     // sends between tx_burst and reap; beyond it: back-pressure
  std::uint32_t max_remotes = 256;
  std::uint16_t entropies = 1;  // that it says it has; all go the same way
  bool needs_checksum = false;  // true: behave as a fabric without an end-to-end check of its own
};

class MemoryNic final : public proto::Nic {
 public:
  // A payload of fewer bytes is copied: that costs less than to pass it between two threads.
  static constexpr std::uint32_t kLentBytes = 1024;
  // Calls of reap in a row that find the oldest view still out. An idle turn calls it once, so that
  // it comes to tens of microseconds for who polls, and to a quarter of a second for who sleeps.
  static constexpr std::uint32_t kPatience = 128;

  // `pool` outlives the NIC. Throws hawser::Error if the configuration makes no sense.
  MemoryNic(std::shared_ptr<MemoryFabric> fabric, const MemoryNicConfig& config,
            proto::PacketPool& pool);
  // Waits for receivers in other threads that are reading a payload at this moment.
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
  // Not where there is a checksum, which is of the datagram in one piece.
  void take_views() override;

  // Another address from now on, as of a NIC that was replaced; what was sent to the old one and
  // not received yet is lost. The owner tells of it by an event. Allocates.
  void move();

 private:
  struct Send {
    proto::PacketBuffer* buffer = nullptr;
    std::uint64_t cookie = proto::TxPacket::kNoCookie;
    DatagramRing* lent_to = nullptr;     // whose receiver may read the payload
    std::uint64_t position = 0;          // there
    std::shared_ptr<MemoryPort> port{};  // of the last one to a remote that was closed: its ring
  };

  void deliver(const proto::TxPacket& packet, Send& send);
  // Copies the payload of a send if its receiver keeps us waiting.
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
  std::uint32_t waits_ = 0;            // calls of reap since a receiver last gave something back
  std::uint64_t overruns_before_ = 0;  // in ports that it had before it moved
};

}  // namespace hawser::engine
