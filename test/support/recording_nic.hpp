// SPDX-License-Identifier: Apache-2.0
// A NIC that keeps copies of the packets it is given, and gives each buffer back at once. It
// receives what a test lets it. It serves tests that make a part of the protocol without an
// endpoint.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/nic.hpp"
#include "proto/wire/packet.hpp"

namespace hawser::test {

class RecordingNic final : public proto::Nic {
 public:
  struct Packet {
    std::vector<std::uint64_t> words;  // headers and payload, aligned
    std::size_t header_bytes = 0;
    std::size_t payload_bytes = 0;
    proto::RemoteHandle remote = proto::kNoRemote;
    proto::Queue queue = proto::Queue::data;
    std::uint16_t entropy = 0;
    proto::NicAddress to{};  // that of `remote`

    // A packet without payload, read as its receiver reads it.
    [[nodiscard]] std::optional<proto::wire::PacketView> parsed() const {
      proto::wire::PacketView view;
      const auto bytes = std::as_bytes(std::span(words)).first(header_bytes);
      if (proto::wire::parse(bytes, queue, true, view)) return std::nullopt;
      return view;
    }
  };

  // `pool` outlives it.
  RecordingNic(std::uint8_t number, proto::PacketPool& pool, proto::NicCaps caps)
      : pool_(pool), caps_(caps) {
    address_.bytes[0] = std::byte{static_cast<std::uint8_t>(proto::NicKind::memory)};
    address_.bytes[1] = std::byte{number};
  }

  std::vector<Packet> sent;
  std::deque<Packet> coming;           // that it receives, in this order
  std::size_t room = ~std::size_t{0};  // packets that it still takes
  bool knows_way = true;               // whether it can open remotes
  std::map<proto::RemoteHandle, proto::NicAddress> open;
  int flushes = 0;

  [[nodiscard]] std::string_view name() const override { return "recording"; }
  [[nodiscard]] const proto::NicCaps& caps() const override { return caps_; }
  [[nodiscard]] const proto::NicAddress& address() const override { return address_; }
  [[nodiscard]] Status open_remote(const proto::NicAddress& remote,
                                   proto::RemoteHandle& handle) override {
    if (!knows_way) return Status::again;
    handle = proto::RemoteHandle{next_handle_++};
    open[handle] = remote;
    return Status::ok;
  }
  void close_remote(proto::RemoteHandle handle) override { open.erase(handle); }
  [[nodiscard]] std::size_t tx_burst(std::span<const proto::TxPacket> packets) override {
    const std::size_t taken = std::min(packets.size(), room);
    room -= taken;
    for (const proto::TxPacket& packet : packets.first(taken)) {
      Packet kept{{},           packet.header_bytes, packet.payload_bytes, packet.remote,
                  packet.queue, packet.entropy,      open[packet.remote]};
      kept.words.resize((packet.header_bytes + packet.payload_bytes + 7) / 8);
      const auto bytes = std::as_writable_bytes(std::span(kept.words));
      std::memcpy(bytes.data(), packet.buffer->bytes, packet.header_bytes);
      if (packet.payload_bytes > 0) {
        std::memcpy(bytes.subspan(packet.header_bytes).data(), packet.payload,
                    packet.payload_bytes);
      }
      sent.push_back(std::move(kept));
      pool_.give(std::span(&packet.buffer, 1));
    }
    return taken;
  }
  void flush() override { ++flushes; }
  [[nodiscard]] std::size_t reap(std::span<std::uint64_t>) override { return 0; }
  [[nodiscard]] std::size_t rx_burst(proto::Queue queue,
                                     std::span<proto::RxPacket> packets) override {
    std::vector<Packet>& lent = lent_[static_cast<std::size_t>(queue)];
    lent.clear();
    for (auto it = coming.begin(); it != coming.end() && lent.size() < packets.size();) {
      if (it->queue == queue) {
        lent.push_back(std::move(*it));
        it = coming.erase(it);
      } else {
        ++it;
      }
    }
    for (std::size_t i = 0; i < lent.size(); ++i) {
      packets[i] = proto::RxPacket{};
      packets[i].data = std::as_bytes(std::span(lent[i].words)).data();
      packets[i].bytes = static_cast<std::uint32_t>(lent[i].header_bytes + lent[i].payload_bytes);
      packets[i].queue = queue;
    }
    return lent.size();
  }
  [[nodiscard]] std::size_t events(std::span<proto::NicEvent>) override { return 0; }
  [[nodiscard]] std::uint64_t overruns() const override { return 0; }
  [[nodiscard]] std::size_t descriptors(std::span<int>) const override { return 0; }
  [[nodiscard]] Status register_memory(const void*, std::size_t) override { return Status::ok; }
  void deregister_memory(const void*, std::size_t) override {}

 private:
  proto::PacketPool& pool_;
  const proto::NicCaps caps_;
  proto::NicAddress address_;
  std::uint32_t next_handle_ = 0;
  std::array<std::vector<Packet>, 2> lent_;  // of each queue: what its last burst gave views of
};

}  // namespace hawser::test
