// SPDX-License-Identifier: Apache-2.0
// Puts arbitrary packets into a World: those that a stranger on the fabric, a mad NIC or a peer
// with a bug could send.
#pragma once

#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "proto/wire/packet.hpp"
#include "test/support/simple_pool.hpp"
#include "test/support/virtual_world.hpp"

namespace hawser::test {

// A datagram as it is on the wire.
struct Datagram {
  proto::Queue queue = proto::Queue::data;
  std::vector<std::uint64_t> words;  // so that headers are aligned
  std::size_t bytes = 0;

  Datagram() = default;
  Datagram(proto::Queue on, std::span<const std::byte> header, std::span<const std::byte> payload)
      : queue(on), words((header.size() + payload.size() + 7) / 8), bytes(header.size()) {
    if (!header.empty()) std::memcpy(words.data(), header.data(), header.size());
    if (!payload.empty()) std::memcpy(data().data() + bytes, payload.data(), payload.size());
    bytes += payload.size();
  }
  [[nodiscard]] std::span<std::byte> data() { return std::as_writable_bytes(std::span(words)); }
  [[nodiscard]] std::span<std::byte> datagram() { return data().first(bytes); }
  [[nodiscard]] proto::wire::CommonHeader& header() {
    return *reinterpret_cast<proto::wire::CommonHeader*>(words.data());
  }
  // Recomputes the checksum.
  void seal() {
    header().checksum = 0;
    header().checksum = proto::wire::detail::packet_checksum(datagram(), {});
  }
};

class Injector {
 public:
  explicit Injector(World& world) : world_(world), pool_(256), nic_(world.fabric(), {}, pool_) {}

  void send(std::uint32_t node, std::uint32_t nic, Datagram& datagram) {
    proto::RemoteHandle remote = proto::kNoRemote;
    REQUIRE(nic_.open_remote(world_.nic(node, nic).address(), remote) == Status::ok);
    proto::PacketBuffer* buffer = nullptr;
    REQUIRE(pool_.take(std::span(&buffer, 1)) == 1);
    proto::TxPacket packet;
    packet.buffer = buffer;
    packet.remote = remote;
    packet.queue = datagram.queue;
    const auto bytes = datagram.datagram();
    const auto header = bytes.first(std::min(bytes.size(), proto::PacketBuffer::kBytes));
    std::memcpy(buffer->bytes, header.data(), header.size());
    packet.header_bytes = static_cast<std::uint32_t>(header.size());
    packet.payload = bytes.data() + header.size();
    packet.payload_bytes = static_cast<std::uint32_t>(bytes.size() - header.size());
    REQUIRE(nic_.tx_burst(std::span(&packet, 1)) == 1);
    std::array<std::uint64_t, 8> cookies;
    (void)nic_.reap(cookies);
    nic_.close_remote(remote);
    world_.wake(node);
  }

 private:
  World& world_;
  SimplePool pool_;
  engine::MemoryNic nic_;
};

}  // namespace hawser::test
