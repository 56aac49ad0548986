// SPDX-License-Identifier: Apache-2.0
#include "sim/core/sim_nic.hpp"

#include <algorithm>
#include <cstring>

#include "proto/base/assert.hpp"
#include "sim/core/lies.hpp"

namespace hawser::sim {

namespace {
// Where the network stands in an address: behind a kind and a number of 32 bits.
constexpr std::size_t kNetworkAt = 5;
constexpr double kOverheard = 0.1;  // putting a frame in words takes time
constexpr double kPrecious = 10;    // intruders prefer the packets that begin and end sessions
}  // namespace

using proto::NicEvent;
using proto::RemoteHandle;
using proto::TxPacket;

SimNic::SimNic(EventQueue& events, Fabric& fabric, AddressBook& book, const Place& place,
               const NicConfig& config, proto::PacketPool& pool, std::uint64_t seed,
               std::function<void()> wake)
    : events_(events),
      fabric_(fabric),
      book_(book),
      port_(place.port),
      network_(place.network),
      config_(config),
      pool_(pool),
      random_(seed),
      intruder_(~seed),
      wake_(std::move(wake)),
      name_("sim:" + std::to_string(port_)) {
  caps_.max_datagram_bytes = caps_.payload_bytes = config.max_datagram_bytes;
  caps_.burst = config.burst;
  caps_.entropies = config.entropies;
  caps_.needs_checksum = config.needs_checksum;
  caps_.receive_bytes = std::uint64_t{config.data_slots} * config.max_datagram_bytes;
  caps_.link_bytes_per_s = fabric.to_fabric(port_).config().bytes_per_s;
  ring(proto::Queue::data).slots = config.data_slots;
  ring(proto::Queue::control).slots = config.control_slots;
  if (place.number == kOwnNumber) {
    take_address(book_.enter(port_));
  } else {
    book_.enter_again(place.number, port_);
    take_address(place.number);
  }
  fabric_.plug(port_, this);
}

SimNic::~SimNic() {
  fabric_.plug(port_, nullptr);
  book_.withdraw(number_);
  for (const Sent& one : sent_) pool_.give({&one.buffer, 1});
  for (ReceiveRing& ring : rings_) {
    for (const std::uint32_t frame : ring.frames) fabric_.frames().give(frame);
    for (const std::uint32_t frame : ring.lent) fabric_.frames().give(frame);
  }
}

void SimNic::take_address(std::uint32_t number) {
  number_ = number;
  address_.bytes[0] = static_cast<std::byte>(proto::NicKind::memory);
  std::memcpy(&address_.bytes[1], &number_, sizeof number_);
  std::memcpy(&address_.bytes[kNetworkAt], &network_, sizeof network_);
}

bool SimNic::can_address(const proto::NicAddress& remote) const {
  std::uint32_t network = 0;
  std::memcpy(&network, &remote.bytes[kNetworkAt], sizeof network);
  return remote.bytes[0] == address_.bytes[0] && network == network_;
}

void SimNic::tell(NicEvent::Kind kind) {
  news_.push_back({kind});
  wake_();
}

void SimNic::move() {
  book_.withdraw(number_);
  take_address(book_.enter(port_));
  ++counters_.moves;
}

bool SimNic::reads(const std::byte* data, std::size_t bytes) const {
  return std::ranges::any_of(sent_, [&](const Sent& one) {
    return one.payload_bytes > 0 && one.payload < data + bytes &&
           data < one.payload + one.payload_bytes;
  });
}

proto::Time SimNic::next_reap() const {
  return sent_.empty() || faults.holds_sends ? proto::kNever : sent_.front().reapable;
}

Status SimNic::open_remote(const proto::NicAddress& remote, RemoteHandle& handle) {
  std::uint32_t number = 0;
  std::memcpy(&number, &remote.bytes[1], sizeof number);
  if (!can_address(remote) || !book_.is_known(number)) return Status::invalid_argument;
  if (faults.unresolved) return Status::again;
  if (openings_.size() <= number) openings_.resize(number + 1);
  ++openings_[number];
  handle = RemoteHandle{number};
  return Status::ok;
}

void SimNic::close_remote(RemoteHandle handle) {
  const auto number = static_cast<std::uint32_t>(handle);
  HAWSER_ASSERT(number < openings_.size() && openings_[number] > 0, "closed more than opened");
  --openings_[number];
}

// The longest datagram that the narrowest way from this NIC to that address carries whole.
std::uint32_t SimNic::way_bytes(std::uint32_t number) const {
  std::uint32_t bytes = config_.max_datagram_bytes;
  for (const NarrowWay& way : faults.narrow_ways) {
    if (way.port == book_.last_port_of(number)) bytes = std::min(bytes, way.bytes);
  }
  return bytes;
}

std::uint32_t SimNic::max_datagram_to(const proto::NicAddress& remote) {
  std::uint32_t number = 0;
  std::memcpy(&number, &remote.bytes[1], sizeof number);
  return book_.is_known(number) ? way_bytes(number) : config_.max_datagram_bytes;
}

std::size_t SimNic::tx_burst(std::span<const TxPacket> packets) {
  std::size_t count = std::min<std::size_t>(packets.size(), config_.send_slots - sent_.size());
  if (count > 0 && random_.chance(faults.partial_burst)) {
    count = random_.below(count);
    ++counters_.partial_bursts;
  }
  unflushed_ = unflushed_ || count > 0;
  for (const TxPacket& packet : packets.first(count)) {
    const auto number = static_cast<std::uint32_t>(packet.remote);
    HAWSER_ASSERT(number < openings_.size() && openings_[number] > 0, "a handle that is not open");
    const std::uint32_t bytes = packet.header_bytes + packet.payload_bytes;
    HAWSER_ASSERT(packet.header_bytes > 0 && bytes <= config_.max_datagram_bytes);
    counters_.fragmented += !faults.narrow_ways.empty() && bytes > way_bytes(number);
    proto::Time left = events_.now();
    const std::uint32_t to = book_.port_of(number);
    if (faults.dead || to == AddressBook::kNobody) {
      ++counters_.lost_dead;
    } else {
      const std::uint32_t id = fabric_.frames().take();
      Frame& frame = fabric_.frames().at(id);
      frame.fill({packet.buffer->bytes, packet.header_bytes},
                 {packet.payload, packet.payload_bytes});
      frame.from = port_;
      frame.to = to;
      frame.address = number;
      frame.queue = packet.queue;
      frame.entropy = packet.entropy;
      if (faults.forged > 0 || faults.garbled > 0) intrude(id);
      left = fabric_.send(id);
    }
    sent_.push_back({packet.buffer, packet.cookie, packet.payload, packet.payload_bytes,
                     left + faults.reap_delay});
  }
  return count;
}

void SimNic::intrude(std::uint32_t id) {
  const bool precious = is_of_session(fabric_.frames().at(id));
  if (intruder_.chance(precious ? 1 : kOverheard)) overhear(fabric_.frames().at(id));
  if (intruder_.chance(precious ? faults.forged * kPrecious : faults.forged)) {
    const std::uint32_t lie = fabric_.frames().copy(id);
    tell_lie(intruder_, faults.is_signed, fabric_.frames().at(lie));
    (void)fabric_.send(lie);
  }
  if (intruder_.chance(faults.garbled)) {
    tell_lie(intruder_, faults.is_signed, fabric_.frames().at(id));
  }
}

std::size_t SimNic::reap(std::span<std::uint64_t> cookies) {
  HAWSER_ASSERT(!unflushed_, "packets of the last turn were not flushed");
  std::size_t count = 0;
  while (!faults.holds_sends && !sent_.empty() && sent_.front().reapable <= events_.now()) {
    if (sent_.front().cookie != TxPacket::kNoCookie) {
      if (count == cookies.size()) break;
      cookies[count++] = sent_.front().cookie;
    }
    pool_.give({&sent_.front().buffer, 1});
    sent_.pop_front();
  }
  return count;
}

void SimNic::on_frame(std::uint32_t id) {
  const Frame& frame = fabric_.frames().at(id);
  ReceiveRing& into = ring(frame.queue);
  const bool gone = faults.dead || frame.address != number_ ||
                    (frame.spoiled && !config_.needs_checksum);  // the NIC's own check finds that
  const std::uint32_t slots =
      faults.ring_slots > 0 ? std::min(faults.ring_slots, into.slots) : into.slots;
  if (gone || into.frames.size() >= slots || frame.bytes == 0) {
    ++(gone ? counters_.lost_dead : counters_.overruns);
    return fabric_.frames().give(id);
  }
  into.frames.push_back(id);
  wake_();
}

std::size_t SimNic::rx_burst(proto::Queue queue, std::span<proto::RxPacket> packets) {
  ReceiveRing& from = ring(queue);
  if (from.lent.empty() && from.frames.empty()) return 0;
  for (const std::uint32_t frame : from.lent) fabric_.frames().give(frame);
  from.lent.clear();
  const std::size_t limit = std::min(packets.size(), kMaxRxBurst);
  while (from.lent.size() < limit && !from.frames.empty()) {
    const std::uint32_t id = from.frames.front();
    from.frames.pop_front();
    Frame& frame = fabric_.frames().at(id);
    packets[from.lent.size()] = {frame.data().data(), frame.bytes, queue,
                                 frame.congestion_experienced};
    from.lent.push_back(id);
  }
  return from.lent.size();
}

std::size_t SimNic::events(std::span<NicEvent> events) {
  if (news_.empty()) return 0;
  const std::size_t count = std::min(events.size(), news_.size());
  std::copy_n(news_.begin(), count, events.begin());
  news_.erase(news_.begin(), news_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

}  // namespace hawser::sim
