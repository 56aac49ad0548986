// SPDX-License-Identifier: Apache-2.0
// Helpers of the driver tests: they build datagrams that differ, send, reap and receive.
#pragma once

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "proto/nic.hpp"
#include "test/support/hang_limit.hpp"
#include "test/support/simple_pool.hpp"

namespace hawser::test {

using proto::Nic;
using proto::PacketBuffer;
using proto::Queue;
using proto::RemoteHandle;
using proto::RxPacket;
using proto::TxPacket;

// Fills in the bytes of datagram number `id`. A slip by one byte or a mix of two datagrams shows.
inline void fill(std::span<std::byte> bytes, std::uint64_t id) {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i % 8 == 0) {
      word = (id + 1) * 0x9e3779b97f4a7c15u + i * 0xbf58476d1ce4e5b9u;
      word ^= word >> 31;
    }
    bytes[i] = static_cast<std::byte>(word >> (i % 8 * 8));
  }
}

inline std::vector<std::byte> datagram(std::uint64_t id, std::size_t bytes) {
  std::vector<std::byte> result(bytes);
  fill(result, id);
  return result;
}

inline bool equals(const RxPacket& packet, std::span<const std::byte> expected) {
  return packet.bytes == expected.size() &&
         std::memcmp(packet.data, expected.data(), expected.size()) == 0;
}

// Opens the remote, asking again until the driver knows the way.
inline RemoteHandle open(Nic& nic, const Nic& remote) {
  RemoteHandle handle = proto::kNoRemote;
  Status status = Status::again;
  (void)comes_true([&] {
    status = nic.open_remote(remote.address(), handle);
    return status != Status::again;
  });
  REQUIRE(status == Status::ok);
  return handle;
}

// Hands packets over and flushes, so that none waits for more. Returns how many the NIC took.
inline std::size_t send_now(Nic& nic, std::span<const TxPacket> packets) {
  const std::size_t taken = nic.tx_burst(packets);
  nic.flush();
  return taken;
}

// A datagram to be sent. The NIC may read its payload until the datagram is reaped.
struct Outgoing {
  std::uint64_t id = 0;
  std::size_t header_bytes = 32;
  std::size_t payload_bytes = 0;
  RemoteHandle remote = proto::kNoRemote;
  Queue queue = Queue::data;
  bool with_cookie = true;  // the cookie is the id
};

// Builds packets and keeps their payloads alive.
class Burst {
 public:
  explicit Burst(SimplePool& pool) : pool_(pool) {}

  void add(const Outgoing& out) {
    const std::vector<std::byte> bytes = datagram(out.id, out.header_bytes + out.payload_bytes);
    TxPacket packet;
    PacketBuffer* buffer = nullptr;
    REQUIRE(pool_.take({&buffer, 1}) == 1);
    std::memcpy(buffer->bytes, bytes.data(), out.header_bytes);
    payloads_.emplace_back(bytes.begin() + static_cast<std::ptrdiff_t>(out.header_bytes),
                           bytes.end());
    packet.buffer = buffer;
    packet.header_bytes = static_cast<std::uint32_t>(out.header_bytes);
    packet.payload = payloads_.back().data();
    packet.payload_bytes = static_cast<std::uint32_t>(out.payload_bytes);
    packet.remote = out.remote;
    packet.queue = out.queue;
    packet.cookie = out.with_cookie ? out.id : TxPacket::kNoCookie;
    packets_.push_back(packet);
  }

  [[nodiscard]] std::span<const TxPacket> packets() const { return packets_; }

  // Hands over the packets that are left; returns how many the NIC took.
  std::size_t send(Nic& nic) {
    const std::size_t taken = send_now(nic, packets().subspan(sent_));
    sent_ += taken;
    return taken;
  }
  [[nodiscard]] bool all_sent() const { return sent_ == packets_.size(); }

  // Gives the buffers that were not handed over, and so are the sender's, back to the pool.
  void abandon() {
    for (; sent_ < packets_.size(); ++sent_) pool_.give({&packets_[sent_].buffer, 1});
  }
  // The payloads are the sender's again: overwrites them, so that a late read shows.
  void scribble() {
    for (auto& payload : payloads_) std::fill(payload.begin(), payload.end(), std::byte{0xee});
  }

 private:
  SimplePool& pool_;
  std::vector<TxPacket> packets_;
  std::vector<std::vector<std::byte>> payloads_;
  std::size_t sent_ = 0;
};

// Reaps all cookies there are, and sorts them.
inline std::vector<std::uint64_t> reap_all(Nic& nic) {
  std::vector<std::uint64_t> all;
  std::array<std::uint64_t, 16> cookies;
  while (const std::size_t count = nic.reap(cookies)) {
    all.insert(all.end(), cookies.begin(), cookies.begin() + static_cast<std::ptrdiff_t>(count));
  }
  std::sort(all.begin(), all.end());
  return all;
}

inline std::vector<std::vector<std::byte>> copies(std::span<const RxPacket> packets) {
  std::vector<std::vector<std::byte>> result;
  for (const RxPacket& packet : packets) {
    result.emplace_back(packet.data, packet.data + packet.bytes);
  }
  return result;
}

// Receives until the ring is empty.
inline std::vector<std::vector<std::byte>> receive_all(Nic& nic, Queue queue = Queue::data) {
  std::vector<std::vector<std::byte>> all;
  std::array<RxPacket, Nic::kMaxRxBurst> packets;
  std::size_t count = 0;
  do {
    count = nic.rx_burst(queue, packets);
    for (auto& bytes : copies(std::span(packets).first(count))) all.push_back(std::move(bytes));
  } while (count == packets.size());
  return all;
}

}  // namespace hawser::test
