#include "engine/driver/memory_nic.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "hawser/engine.hpp"
#include "proto/assert.hpp"

namespace hawser::engine {

using proto::NicAddress;
using proto::PacketBuffer;
using proto::RemoteHandle;
using proto::TxPacket;

namespace {

const MemoryNicConfig& checked(const MemoryNicConfig& config) {
  if (config.max_datagram_bytes == 0 || config.datagram_bytes == 0 || config.data_slots == 0 ||
      config.control_slots == 0 || config.send_slots == 0 || config.max_remotes == 0) {
    throw Error("memory NIC: every size in its configuration must be at least 1");
  }
  return config;
}

}  // namespace

MemoryNic::MemoryNic(std::shared_ptr<MemoryFabric> fabric, const MemoryNicConfig& config,
                     proto::PacketPool& pool)
    : fabric_(std::move(fabric)),
      config_(config),
      pool_(pool),
      name_("memory:" + fabric_->name()),
      port_(std::make_shared<MemoryPort>(checked(config).data_slots, config.control_slots,
                                         config.max_datagram_bytes)),
      address_(fabric_->attach(port_)),
      remotes_(config.max_remotes),
      remote_ports_(config.max_remotes),
      sends_(config.send_slots) {
  caps_.max_datagram_bytes = config.max_datagram_bytes;
  caps_.entropies = config.entropies;
  caps_.needs_checksum = config.needs_checksum;
  // A slot holds one datagram, of whatever length.
  caps_.receive_bytes = std::uint64_t{port_->data.slots()} *
                        std::min(config.datagram_bytes, config.max_datagram_bytes);
}

MemoryNic::~MemoryNic() {
  fabric_->detach(address_);
  while (!sends_.empty()) {
    PacketBuffer* const buffer = sends_.pop().buffer;
    pool_.give({&buffer, 1});
  }
}

void MemoryNic::move() {
  overruns_before_ = overruns();
  fabric_->detach(address_);
  port_ = std::make_shared<MemoryPort>(config_.data_slots, config_.control_slots,
                                       config_.max_datagram_bytes);
  address_ = fabric_->attach(port_);
}

Status MemoryNic::open_remote(const NicAddress& remote, RemoteHandle& handle) {
  std::shared_ptr<MemoryPort> port;
  if (const Status found = fabric_->find(remote, port); found != Status::ok) return found;
  const RemoteTable::Opened opened = remotes_.open(remote);
  if (opened.handle == proto::kNoRemote) return Status::again;
  if (opened.is_new) remote_ports_[static_cast<std::uint32_t>(opened.handle)] = std::move(port);
  handle = opened.handle;
  return Status::ok;
}

void MemoryNic::close_remote(RemoteHandle handle) {
  if (remotes_.close(handle)) remote_ports_[static_cast<std::uint32_t>(handle)].reset();
}

void MemoryNic::deliver(const TxPacket& packet) {
  if (packet.header_bytes + std::uint64_t{packet.payload_bytes} > caps_.max_datagram_bytes) return;
  if (!remotes_.is_open(packet.remote)) return;
  MemoryPort* const port = remote_ports_[static_cast<std::uint32_t>(packet.remote)].get();
  if (port == nullptr) return;
  // A full ring counts the loss by itself, at the receiver, whose loss it is.
  port->ring(packet.queue)
      .push({packet.buffer->bytes, packet.header_bytes}, {packet.payload, packet.payload_bytes});
}

std::size_t MemoryNic::tx_burst(std::span<const TxPacket> packets) {
  const std::size_t count =
      std::min<std::size_t>(packets.size(), sends_.capacity() - sends_.size());
  for (const TxPacket& packet : packets.first(count)) {
    deliver(packet);
    HAWSER_ASSERT(sends_.push({packet.buffer, packet.cookie}));
  }
  return count;
}

std::size_t MemoryNic::reap(std::span<std::uint64_t> cookies) {
  std::array<PacketBuffer*, 64> buffers;
  std::size_t held = 0;
  std::size_t count = 0;
  while (!sends_.empty()) {
    if (sends_.front().cookie != TxPacket::kNoCookie) {
      if (count == cookies.size()) break;
      cookies[count++] = sends_.front().cookie;
    }
    buffers[held++] = sends_.pop().buffer;
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
