// SPDX-License-Identifier: Apache-2.0
// A NIC that costs next to nothing, so that only the protocol's own cost remains. It hands a packet
// to the other NIC of the pair in place. Headers stay in their buffers until the receiver has gone
// past them. Payloads of up to 64 bytes are put behind the headers; longer ones are not carried at
// all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "proto/nic.hpp"

namespace hawser::bench {

class PassingNic final : public proto::Nic {
 public:
  static constexpr std::uint32_t kDatagramBytes = 4096 + 1024;
  static constexpr std::uint32_t kCarried = 64;

  // `pool` holds this side's header buffers.
  PassingNic(std::uint8_t number, proto::PacketPool& pool);
  ~PassingNic() override;
  PassingNic(const PassingNic&) = delete;
  PassingNic& operator=(const PassingNic&) = delete;
  // Call before anything is sent. Each NIC must outlive the other's use of it.
  void join(PassingNic& other) { other_ = &other; }

  [[nodiscard]] std::string_view name() const override { return "passing"; }
  [[nodiscard]] const proto::NicCaps& caps() const override { return caps_; }
  [[nodiscard]] const proto::NicAddress& address() const override { return address_; }
  [[nodiscard]] Status open_remote(const proto::NicAddress&, proto::RemoteHandle& handle) override {
    handle = proto::RemoteHandle{0};
    return Status::ok;
  }
  void close_remote(proto::RemoteHandle) override {}
  [[nodiscard]] std::size_t tx_burst(std::span<const proto::TxPacket> packets) override;
  [[nodiscard]] std::size_t reap(std::span<std::uint64_t> cookies) override;
  [[nodiscard]] std::size_t rx_burst(proto::Queue queue,
                                     std::span<proto::RxPacket> packets) override;
  [[nodiscard]] std::size_t events(std::span<proto::NicEvent>) override { return 0; }
  [[nodiscard]] std::uint64_t overruns() const override { return 0; }
  [[nodiscard]] std::size_t descriptors(std::span<int>) const override { return 0; }
  [[nodiscard]] Status register_memory(const void*, std::size_t) override { return Status::ok; }
  void deregister_memory(const void*, std::size_t) override {}

 private:
  struct Sent {
    proto::PacketBuffer* buffer = nullptr;
    std::uint32_t bytes = 0;
    std::uint64_t cookie = 0;
  };
  // The packets that were sent on a queue. The other side sees the packets [begin, seen) and still
  // reads them. It has read those before `begin`, which are reaped.
  struct Ring {
    std::vector<Sent> slots;
    std::uint32_t reaped = 0;
    std::uint32_t begin = 0;
    std::uint32_t seen = 0;
    std::uint32_t end = 0;
  };
  static constexpr std::uint32_t kSlots = 4096;

  proto::PacketPool& pool_;
  PassingNic* other_ = nullptr;
  proto::NicCaps caps_;
  proto::NicAddress address_;
  Ring rings_[2];
};

}  // namespace hawser::bench
