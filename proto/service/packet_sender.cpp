// SPDX-License-Identifier: Apache-2.0
#include "proto/service/packet_sender.hpp"

#include <algorithm>
#include <array>
#include <tuple>

#include "proto/base/assert.hpp"
#include "proto/wire/mac.hpp"

namespace hawser::proto {

namespace {

NicLimits limits_of(std::span<Nic* const> nics, const Tunables& tunables) {
  HAWSER_ASSERT(!nics.empty() && nics.size() <= kMaxNics);
  NicLimits limits;
  limits.control_bytes = PacketBuffer::kBytes;
  limits.receive_bytes = ~std::uint64_t{0};
  std::uint64_t payload = tunables.fragment_bytes;
  for (Nic* const nic : nics) {
    const NicCaps& caps = nic->caps();
    HAWSER_ASSERT(caps.max_datagram_bytes >= wire::kDataHeaderBytes + wire::kMinFragmentBytes);
    HAWSER_ASSERT(caps.max_datagram_bytes >= sizeof(wire::CommonHeader) +
                                                 sizeof(wire::SessionPart) +
                                                 nics.size() * sizeof(wire::NicRecord));
    payload = std::min<std::uint64_t>(
        {payload, caps.payload_bytes, caps.max_datagram_bytes - wire::kDataHeaderBytes});
    limits.control_bytes = std::min<std::size_t>(limits.control_bytes, caps.max_datagram_bytes);
    limits.receive_bytes = std::min(limits.receive_bytes, caps.receive_bytes);
    limits.checksum |= caps.needs_checksum;
    limits.burst_packets = std::max(limits.burst_packets, caps.burst);
    limits.link_bytes_per_s += caps.link_bytes_per_s;
  }
  limits.fragment_bytes = static_cast<std::uint32_t>(
      std::max<std::uint64_t>(payload / 16 * 16, wire::kMinFragmentBytes));
  return limits;
}

}  // namespace

PacketSender::PacketSender(Turn& turn, PeerTable& peers, std::span<Nic* const> nics,
                           PacketPool& pool, std::span<const std::byte> job_secret)
    : turn_(turn),
      peers_(peers),
      pool_(pool),
      job_secret_(job_secret),
      limits_(limits_of(nics, turn.tunables)),
      remotes_(peers.capacity()),
      padding_(limits_.fragment_bytes) {
  for (Nic* const nic : nics) {
    nics_.push_back(
        LocalNic{.nic = nic, .address = nic->address(), .lanes = lanes_of(nic->caps())});
    const std::uint64_t rate = nic->caps().link_bytes_per_s;
    if (rate > 0) nics_.back().ns_per_byte = 1e9 / static_cast<double>(rate);
  }
}

bool PacketSender::can_address(Peer& peer, std::size_t local, std::size_t remote_nic) {
  return remote_nic < peer.session.remote_nics &&
         nics_[local].nic->can_address(peers_.nic_of(peer, remote_nic).address);
}

RemoteHandle PacketSender::remote(Peer& peer, NicPair pair) {
  RemoteHandle handle = remotes_.find(peer.session.remotes, pair.local, pair.remote);
  if (handle != kNoRemote || pair.remote >= peer.session.remote_nics) return handle;
  const NicAddress& address = peers_.nic_of(peer, pair.remote).address;
  if (nics_[pair.local].nic->open_remote(address, handle) != Status::ok) return kNoRemote;
  remotes_.add(peer.session.remotes, pair.local, pair.remote, handle,
               [&](std::size_t nic, RemoteHandle old) { nics_[nic].nic->close_remote(old); });
  return handle;
}

void PacketSender::close_remotes(Peer& peer, std::size_t remote_nic) {
  remotes_.close_to(peer.session.remotes, remote_nic, [&](std::size_t local, RemoteHandle handle) {
    nics_[local].nic->close_remote(handle);
  });
}

bool PacketSender::send_one(std::size_t local, const TxPacket& packet) {
  if (send_burst(local, std::span(&packet, 1)) == 1) {
    nics_[local].give(turn_.now(), packet.header_bytes + packet.payload_bytes);
    return true;
  }
  ++turn_.counters.nic_backpressure;
  give_buffer(packet.buffer);
  return false;
}

TxPacket PacketSender::complete(std::size_t local, RemoteHandle remote, PacketBuffer& buffer,
                                wire::PacketWriter& writer) {
  TxPacket packet;
  writer.header().slot = wire::CommonHeader::slot_byte(0, local);
  packet.queue = wire::rule_of(writer.header().type).queue;
  // A packet of the data queue without payload begins or ends a session.
  if (packet.queue == Queue::data) wire::sign(writer, job_secret_);
  packet.header_bytes = finish(writer);
  packet.buffer = &buffer;
  packet.remote = remote;
  packet.entropy = nics_[local].next_entropy();
  return packet;
}

bool PacketSender::send_to(std::size_t local, RemoteHandle remote, PacketBuffer& buffer,
                           wire::PacketWriter& writer) {
  return send_one(local, complete(local, remote, buffer, writer));
}

// False: the copy's NIC is down or has no way, or there is no buffer for it.
bool PacketSender::write_copy(Peer& peer, NicPair pair, const PacketBuffer& original,
                              wire::PacketWriter& writer, TxPacket& packet) {
  const RemoteHandle to = nics_[pair.local].up ? remote(peer, pair) : kNoRemote;
  PacketBuffer* const copy = to == kNoRemote ? nullptr : take_buffer();
  if (copy == nullptr) return false;
  packet = complete(pair.local, to, *copy, writer);
  std::copy_n(original.bytes, packet.header_bytes, copy->bytes);
  return true;
}

bool PacketSender::send_over(Peer& peer, const Routes& routes, PacketBuffer& buffer,
                             wire::PacketWriter& writer) {
  const RemoteHandle to = remote(peer, routes.first);
  if (to == kNoRemote) {
    give_buffer(&buffer);
    return false;
  }
  if (routes.other_count == 0) return send_to(routes.first.local, to, buffer, writer);
  return send_with_copies(peer, routes, to, buffer, writer);
}

bool PacketSender::send_with_copies(Peer& peer, const Routes& routes, RemoteHandle to,
                                    PacketBuffer& buffer, wire::PacketWriter& writer) {
  struct Copy {
    std::size_t local = 0;
    TxPacket packet;
  };
  std::array<Copy, std::tuple_size_v<decltype(Routes::others)>> copies;
  std::size_t count = 0;
  // They begin with another pair each turn, as the ring may have no room for the last ones.
  for (std::size_t i = 0; i < routes.other_count; ++i) {
    const NicPair pair = routes.others[(turn_.number() + i) % routes.other_count];
    copies[count].local = pair.local;
    if (write_copy(peer, pair, buffer, writer, copies[count].packet)) ++count;
  }
  const bool is_control = writer.header().type == wire::PacketType::control;
  // The packet itself leaves first. Its copies would take each place that becomes free in a full
  // ring, turn after turn, and the packet would never leave.
  const bool left = send_to(routes.first.local, to, buffer, writer);
  for (const Copy& copy : std::span(copies).first(count)) {
    if (!left) {
      give_buffer(copy.packet.buffer);
    } else if (send_one(copy.local, copy.packet) && is_control) {
      ++turn_.counters.control_packets_sent;
    }
  }
  return left;
}

}  // namespace hawser::proto
