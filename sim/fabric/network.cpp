// SPDX-License-Identifier: Apache-2.0
#include "sim/fabric/network.hpp"

#include <numeric>

#include "proto/base/assert.hpp"

namespace hawser::fabric {

Network::Network(EventWheel& events, const Shape& shape, std::uint64_t seed,
                 std::size_t header_room)
    : events_(events),
      wiring_(shape),
      packets_(header_room),
      receivers_(wiring_.ports(), nullptr),
      seed_(sim::scramble(seed)),
      adaptive_(shape.adaptive),
      adaptive_step_(
          std::max(Pace::of(shape.tiers[0].bits_per_s).time_of(shape.adaptive_step), Span{1})) {
  links_.reserve(wiring_.links());
  for (std::uint32_t link = 0; link < wiring_.links(); ++link) {
    const std::uint32_t end = wiring_.end(link) | (wiring_.ends_at_port(link) ? Wiring::kPort : 0);
    links_.emplace_back(wiring_.settings(link), end, seed_ + link);
  }
}

void Network::send(PacketId id) {
  Packet& packet = packets_.at(id);
  HAWSER_ASSERT(packet.wire_bytes > 0);
  const PortPlace& to = wiring_.place(packet.to);
  HAWSER_ASSERT(to.tree == wiring_.place(packet.from).tree, "no way leads from plane to plane");
  packet.leaf = to.leaf;
  packet.pod = static_cast<std::uint16_t>(to.pod);
  packet.place = static_cast<std::uint16_t>(to.place);
  const std::uint64_t flow =
      std::uint64_t{packet.from} << 40 ^ std::uint64_t{packet.to} << 16 ^ packet.entropy;
  packet.hash = static_cast<std::uint32_t>(sim::scramble(seed_ ^ flow) >> 32);
  enter(wiring_.from_port(packet.from), id);
}

void Network::enter(std::uint32_t link, PacketId id) {
  if (links_[link].enter(events_.now(), id, packets_)) events_.at(links_[link].due(), *this, link);
}

void Network::on_event(Instant now, std::uint32_t number) {
  Link& link = links_[number];
  if (link.due() != now) return;  // a fault has taken the packets
  const PacketId id = link.leave(packets_);
  if (link.due() != kNever) events_.at(link.due(), *this, number);
  if (id == kNoPacket) return;
  ++hops_;
  const std::uint32_t end = link.end();
  if ((end & Wiring::kPort) != 0) return deliver(now, end & ~Wiring::kPort, id);
  enter(next_link(end, packets_.at(id)), id);
}

void Network::prepare(std::uint32_t number, Ahead ahead) const {
  const Link& link = links_[number];
  switch (ahead) {
    case Ahead::far: return link.fetch();
    case Ahead::near: return link.fetch_first(packets_);
    case Ahead::next: return link.fetch_second(packets_);
  }
}

std::uint32_t Network::next_link(std::uint32_t at, const Packet& packet) {
  const Switch& here = wiring_.at(at);
  switch (here.tier) {
    case 0:
      if (packet.leaf == at) return here.first_down + packet.place;
      break;
    case 1:
      if (packet.pod == here.group) {
        const std::uint32_t below = packet.leaf - here.first_below;
        return choose(here.first_down + below * here.bundle, here.bundle, at, packet);
      }
      break;
    default: {
      const std::uint32_t below = packet.pod - here.first_below;
      return choose(here.first_down + below * here.bundle, here.bundle, at, packet);
    }
  }
  return choose(here.first_up, here.up, at, packet);
}

std::uint32_t Network::choose(std::uint32_t first, std::uint32_t count, std::uint32_t at,
                              const Packet& packet) {
  if (count == 1) return first;
  if (adaptive_) return shortest(first, count);
  const std::uint64_t hash = sim::scramble(seed_ + (std::uint64_t{at} << 32 | packet.hash)) >> 32;
  return first + static_cast<std::uint32_t>(hash * count >> 32);
}

// Looks at the ways from a random one on, in either direction, in steps of a random length that
// reaches all. Each of two equal queues is thus as often the first one found, wherever they are.
std::uint32_t Network::shortest(std::uint32_t first, std::uint32_t count) {
  const std::uint64_t dice = sim::scramble(seed_ ^ ++choices_);
  auto way = static_cast<std::uint32_t>((dice >> 32) * count >> 32);
  auto stride = 1 + static_cast<std::uint32_t>((dice & 0xffffffffu) * (count - 1) >> 32);
  while (std::gcd(stride, count) > 1) ++stride;  // at the latest count - 1 reaches all
  if (dice % 2 == 0) stride = count - stride;    // the same, backwards
  std::uint32_t best = way;
  std::int64_t least = level(first + way);
  for (std::uint32_t i = 1; i < count && least > 0; ++i) {
    way = way + stride < count ? way + stride : way + stride - count;
    const std::int64_t found = level(first + way);
    if (found >= least) continue;
    least = found;
    best = way;
  }
  return first + best;
}

void Network::deliver(Instant now, std::uint32_t port, PacketId id) {
  const Packet& packet = packets_.at(id);
  ++delivered_;
  delivered_bytes_ += packet.wire_bytes;
  if (!port_bytes_.empty()) {
    port_bytes_[packet.from].from += packet.wire_bytes;
    port_bytes_[port].to += packet.wire_bytes;
  }
  digest_.mix(static_cast<std::uint64_t>(now.ps));
  digest_.mix(std::uint64_t{packet.to} << 32 ^ std::uint64_t{packet.wire_bytes} << 8 ^
              std::uint64_t{packet.flow} << 40 ^ packet.number ^ (packet.marked ? 1u << 30 : 0) ^
              (packet.trimmed ? 1u << 31 : 0));
  if (receivers_[port] == nullptr) return packets_.give(id);
  receivers_[port]->on_packet(now, id);
}

LinkCounters Network::totals() const {
  LinkCounters all;
  for (const Link& link : links_) {
    const LinkCounters& one = link.counters();
    all.bytes += one.bytes;
    all.packets += one.packets;
    all.dropped += one.dropped;
    all.trimmed += one.trimmed;
    all.marked += one.marked;
    all.lost += one.lost;
    all.cut += one.cut;
  }
  return all;
}

}  // namespace hawser::fabric
