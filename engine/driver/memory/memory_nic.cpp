// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/memory/memory_nic.hpp"

#include <algorithm>
#include <array>
#include <thread>
#include <utility>

#include "hawser/engine.hpp"
#include "proto/base/assert.hpp"

namespace hawser::engine {

using proto::NicAddress;
using proto::PacketBuffer;
using proto::RemoteHandle;
using proto::TxPacket;

namespace {

// Payloads that one reap copies because their views have not come back: some 10 us.
constexpr std::uint32_t kCopiedAtOnce = 64;

const MemoryNicConfig& checked(const MemoryNicConfig& config) {
  if (config.max_datagram_bytes == 0 || config.datagram_bytes == 0 || config.data_slots == 0 ||
      config.control_slots == 0 || config.send_slots == 0 || config.max_remotes == 0) {
    throw Error("memory NIC: every size in its configuration must be at least 1");
  }
  return config;
}

std::shared_ptr<MemoryPort> make_port(const MemoryNicConfig& config) {
  return std::make_shared<MemoryPort>(config.data_slots, config.control_slots,
                                      config.max_datagram_bytes);
}

}  // namespace

MemoryNic::MemoryNic(std::shared_ptr<MemoryFabric> fabric, const MemoryNicConfig& config,
                     proto::PacketPool& pool)
    : fabric_(std::move(fabric)),
      config_(config),
      pool_(pool),
      name_("memory:" + fabric_->name()),
      port_(make_port(checked(config))),
      address_(fabric_->attach(port_)),
      remotes_(config.max_remotes),
      remote_ports_(config.max_remotes),
      sends_(config.send_slots) {
  caps_.max_datagram_bytes = config.max_datagram_bytes;
  caps_.entropies = config.entropies;
  caps_.needs_checksum = config.needs_checksum;
  // A slot holds one datagram of any length.
  caps_.receive_bytes = std::uint64_t{port_->data.slots()} *
                        std::min(config.datagram_bytes, config.max_datagram_bytes);
}

MemoryNic::~MemoryNic() {
  fabric_->detach(address_);
  port_->close();  // before the sends, because it may have sent to itself
  while (!sends_.empty()) {
    const Send send = sends_.pop();
    while (send.lent_to != nullptr && !send.lent_to->take_back(send.position)) {
      std::this_thread::yield();
    }
    pool_.give({&send.buffer, 1});
  }
}

void MemoryNic::move() {
  overruns_before_ = overruns();
  fabric_->detach(address_);
  port_->close();
  const bool takes_views = port_->takes_views.load(std::memory_order_relaxed);
  port_ = make_port(config_);
  port_->takes_views.store(takes_views, std::memory_order_relaxed);
  address_ = fabric_->attach(port_);
}

bool MemoryNic::can_address(const NicAddress& remote) const { return fabric_->names(remote); }

Status MemoryNic::open_remote(const NicAddress& remote, RemoteHandle& handle) {
  std::shared_ptr<MemoryPort> port;
  if (const Status found = fabric_->find(remote, port); found != Status::ok) return found;
  const RemoteTable::Opened opened = remotes_.open(remote);
  if (opened.handle == proto::kNoRemote) return Status::again;
  if (opened.is_new) remote_ports_[static_cast<std::uint32_t>(opened.handle)] = std::move(port);
  handle = opened.handle;
  return Status::ok;
}

void MemoryNic::take_views() {
  port_->takes_views.store(!caps_.needs_checksum, std::memory_order_relaxed);
}

void MemoryNic::close_remote(RemoteHandle handle) {
  if (!remotes_.close(handle)) return;
  const std::shared_ptr<MemoryPort> port =
      std::move(remote_ports_[static_cast<std::uint32_t>(handle)]);
  if (port == nullptr) return;
  for (std::uint32_t i = sends_.size(); i-- > 0;) {
    Send& send = sends_.at(i);
    if (send.lent_to != &port->data && send.lent_to != &port->control) continue;
    send.port = port;
    return;
  }
}

void MemoryNic::deliver(const TxPacket& packet, Send& send) {
  if (packet.header_bytes + std::uint64_t{packet.payload_bytes} > caps_.max_datagram_bytes) return;
  if (!remotes_.is_open(packet.remote)) return;
  MemoryPort* const port = remote_ports_[static_cast<std::uint32_t>(packet.remote)].get();
  if (port == nullptr) return;
  // A full ring counts the loss itself, at the receiver.
  DatagramRing& ring = port->ring(packet.queue);
  const std::span<const std::byte> header(packet.buffer->bytes, packet.header_bytes);
  const std::span<const std::byte> payload(packet.payload, packet.payload_bytes);
  // Nobody waits for a send without a cookie, so its bytes may be gone before the receiver is done.
  const bool may_lend = payload.size() >= kLentBytes && packet.cookie != TxPacket::kNoCookie;
  if (!may_lend || !port->takes_views.load(std::memory_order_relaxed)) {
    (void)ring.push(header, payload);
  } else if (ring.lend(header, payload, send.position)) {
    send.lent_to = &ring;
  }
}

std::size_t MemoryNic::tx_burst(std::span<const TxPacket> packets) {
  const std::size_t count =
      std::min<std::size_t>(packets.size(), sends_.capacity() - sends_.size());
  for (const TxPacket& packet : packets.first(count)) {
    Send send{.buffer = packet.buffer, .cookie = packet.cookie};
    deliver(packet, send);
    sends_.put(std::move(send));
  }
  return count;
}

bool MemoryNic::is_over(const Send& send, bool impatient, std::uint32_t& budget) {
  if (send.lent_to == nullptr) return true;
  if (send.lent_to->is_released(send.position)) {
    waits_ = 0;
    return true;
  }
  if (!impatient || budget == 0) return false;
  --budget;
  return send.lent_to->take_back(send.position);
}

std::size_t MemoryNic::reap(std::span<std::uint64_t> cookies) {
  std::array<PacketBuffer*, 64> buffers;
  std::size_t held = 0;
  std::size_t count = 0;
  const bool impatient = sends_.full() || waits_ >= kPatience;
  std::uint32_t budget = kCopiedAtOnce;
  while (!sends_.empty()) {
    const bool tells = sends_.front().cookie != TxPacket::kNoCookie;
    if (tells && count == cookies.size()) break;
    if (!is_over(sends_.front(), impatient, budget)) {
      if (waits_ < kPatience) ++waits_;
      break;
    }
    const Send send = sends_.pop();
    if (tells) cookies[count++] = send.cookie;
    buffers[held++] = send.buffer;
    if (held == buffers.size()) {
      pool_.give(buffers);
      held = 0;
    }
  }
  if (held > 0) pool_.give(std::span(buffers).first(held));
  return count;
}

std::size_t MemoryNic::rx_burst(proto::Queue queue, std::span<proto::RxPacket> packets) {
  return port_->ring(queue).pop(packets.first(std::min(packets.size(), kMaxRxBurst)), queue);
}

std::uint64_t MemoryNic::overruns() const {
  return overruns_before_ + port_->data.overruns() + port_->control.overruns();
}

}  // namespace hawser::engine
