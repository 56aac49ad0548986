// SPDX-License-Identifier: Apache-2.0
#include "sim/experiment/fabric_nic.hpp"

#include <algorithm>
#include <cstring>

#include "proto/base/assert.hpp"

namespace hawser::experiment {

static_assert(proto::PacketBuffer::kBytes <= fabric::kLongestHeader);

std::byte* ViewSlots::take() {
  if (free_.empty()) {
    slots_.push_back(std::make_unique<std::uint64_t[]>(words_));
    return reinterpret_cast<std::byte*>(slots_.back().get());
  }
  std::byte* const slot = free_.back();
  free_.pop_back();
  return slot;
}

FabricNic::FabricNic(fabric::EventWheel& events, fabric::Network& network, std::uint32_t port,
                     const NicConfig& config, proto::PacketPool& pool, ViewSlots& slots,
                     std::function<void()> wake)
    : events_(events),
      network_(network),
      port_(port),
      config_(config),
      pool_(pool),
      slots_(slots),
      wake_(std::move(wake)),
      name_("fabric:" + std::to_string(port)),
      sent_(config.send_slots) {
  HAWSER_ASSERT(slots.bytes() >= config.max_datagram_bytes && config.send_slots > 0);
  caps_.max_datagram_bytes = config.max_datagram_bytes;
  caps_.entropies = config.entropies;
  caps_.needs_checksum = false;
  caps_.receive_bytes = std::uint64_t{config.data_slots} * config.max_datagram_bytes;
  if (config.tells_rate) {
    caps_.link_bytes_per_s =
        network.wiring().settings(network.wiring().from_port(port)).bits_per_s / 8;
  }
  ring(proto::Queue::data).slots = config.data_slots;
  ring(proto::Queue::control).slots = config.control_slots;
  address_.bytes[0] = static_cast<std::byte>(proto::NicKind::memory);
  std::memcpy(&address_.bytes[1], &port_, sizeof port_);
  network_.plug(port_, this);
}

FabricNic::~FabricNic() {
  network_.plug(port_, nullptr);
  end_views();
  for (ReceiveRing& ring : rings_) {
    while (ring.first != fabric::kNoPacket) {
      const fabric::PacketId next = network_.packets().at(ring.first).next;
      network_.packets().give(ring.first);
      ring.first = next;
    }
  }
}

Status FabricNic::open_remote(const proto::NicAddress& remote, proto::RemoteHandle& handle) {
  std::uint32_t port = 0;
  std::memcpy(&port, &remote.bytes[1], sizeof port);
  const fabric::Wiring& wiring = network_.wiring();
  // No way leads from plane to plane.
  if (remote.bytes[0] != static_cast<std::byte>(proto::NicKind::memory) || port >= wiring.ports() ||
      wiring.place(port).tree != wiring.place(port_).tree) {
    return Status::invalid_argument;
  }
  handle = proto::RemoteHandle{port};
  return Status::ok;
}

void FabricNic::send(const proto::TxPacket& packet) {
  const std::uint32_t bytes = packet.header_bytes + packet.payload_bytes;
  HAWSER_ASSERT(packet.header_bytes > 0 && bytes <= config_.max_datagram_bytes);
  const fabric::PacketId id = network_.packets().take();
  network_.packets().set_header(id, {packet.buffer->bytes, packet.header_bytes});
  fabric::Packet& out = network_.packets().at(id);
  out.from = port_;
  out.to = static_cast<std::uint32_t>(packet.remote);
  out.wire_bytes = bytes + config_.overhead_bytes;
  out.flow = static_cast<std::uint32_t>(packet.queue);
  out.number = static_cast<std::uint32_t>(counters_.sent++);
  out.entropy = packet.entropy;
  out.urgent = packet.queue == proto::Queue::control && config_.urgent_control;
  network_.send(id);
  pool_.give({&packet.buffer, 1});
}

std::size_t FabricNic::tx_burst(std::span<const proto::TxPacket> packets) {
  const std::size_t count = std::min<std::size_t>(packets.size(), sent_.size() - sent_count_);
  was_full_ = was_full_ || count < packets.size();
  for (const proto::TxPacket& packet : packets.first(count)) {
    send(packet);
    sent_[(first_sent_ + sent_count_++) % sent_.size()] = {packet.cookie, cable().counters().bytes};
  }
  return count;
}

const fabric::Link& FabricNic::cable() const {
  return network_.link(network_.wiring().from_port(port_));
}

// When a send has left, at the present rate of the cable. A cable that is down takes all at once,
// and delivers nothing.
fabric::Instant FabricNic::left(const Sent& sent) const {
  if (cable().is_down()) return events_.now();
  const std::uint64_t behind = cable().counters().bytes - sent.bytes;
  return events_.now() + cable().backlog_before(events_.now(), behind);
}

std::size_t FabricNic::reap(std::span<std::uint64_t> cookies) {
  std::size_t count = 0;
  while (sent_count_ > 0 && left(sent(0)) <= events_.now()) {
    if (sent(0).cookie != proto::TxPacket::kNoCookie) {
      if (count == cookies.size()) break;
      cookies[count++] = sent(0).cookie;
    }
    first_sent_ = static_cast<std::uint32_t>((first_sent_ + 1) % sent_.size());
    --sent_count_;
    was_full_ = false;
  }
  return count;
}

fabric::Instant FabricNic::next_reap() const {
  if (sent_count_ == 0) return fabric::kNever;
  return left(sent(was_full_ ? sent_count_ / 2 : sent_count_ - 1));
}

void FabricNic::on_packet(fabric::Instant, fabric::PacketId id) {
  fabric::Packet& packet = network_.packets().at(id);
  ReceiveRing& into = ring(static_cast<proto::Queue>(packet.flow));
  if (packet.trimmed || into.count == into.slots) {
    ++(packet.trimmed ? counters_.trimmed : counters_.overruns);
    return network_.packets().give(id);
  }
  packet.next = fabric::kNoPacket;
  if (into.count++ == 0) {
    into.first = id;
  } else {
    network_.packets().at(into.last).next = id;
  }
  into.last = id;
  wake_();
}

void FabricNic::on_cable(fabric::Instant, bool is_up) {
  if (is_up == is_up_) return;
  is_up_ = is_up;
  news_.push_back({is_up ? proto::NicEvent::Kind::up : proto::NicEvent::Kind::down});
  wake_();
}

std::size_t FabricNic::events(std::span<proto::NicEvent> events) {
  if (news_.empty()) return 0;
  const std::size_t count = std::min(events.size(), news_.size());
  std::copy_n(news_.begin(), count, events.begin());
  news_.erase(news_.begin(), news_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

std::size_t FabricNic::rx_burst(proto::Queue queue, std::span<proto::RxPacket> packets) {
  ReceiveRing& from = ring(queue);
  end_views(from);
  const std::size_t limit = std::min(packets.size(), kMaxRxBurst);
  std::size_t count = 0;
  for (; count < limit && from.count > 0; --from.count) {
    const fabric::PacketId id = from.first;
    const fabric::Packet& packet = network_.packets().at(id);
    const std::span<const std::byte> header = network_.packets().header(id);
    std::byte* const slot = slots_.take();
    std::memcpy(slot, header.data(), header.size());
    packets[count++] = {slot, packet.wire_bytes - config_.overhead_bytes, queue, packet.marked,
                        local_time(packet.arrival)};
    from.lent.push_back(slot);
    from.first = packet.next;
    network_.packets().give(id);
  }
  counters_.received += count;
  return count;
}

void FabricNic::end_views(ReceiveRing& ring) {
  for (std::byte* const slot : ring.lent) slots_.give(slot);
  ring.lent.clear();
}

void FabricNic::end_views() {
  for (ReceiveRing& ring : rings_) end_views(ring);
}

}  // namespace hawser::experiment
