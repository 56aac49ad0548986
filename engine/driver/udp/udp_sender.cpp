// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/udp/udp_sender.hpp"

#include <netinet/udp.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "engine/cancellation.hpp"
#include "proto/wire/layout.hpp"

namespace hawser::engine {
namespace {

namespace wire = proto::wire;
using proto::TxPacket;

constexpr std::size_t kTypeAt = offsetof(wire::CommonHeader, type);

std::uint32_t length_of(const TxPacket& packet) {
  return packet.header_bytes + packet.payload_bytes;
}

// True for a packet that may go to a sender which the endpoint keeps no state of. Strangers can
// make the endpoint send any number of those, so they cost no question to the kernel.
bool answers_stranger(const TxPacket& packet) {
  const auto type = std::to_integer<std::uint8_t>(packet.buffer->bytes[kTypeAt]);
  return type == std::uint8_t(wire::PacketType::challenge) ||
         type == std::uint8_t(wire::PacketType::reset);
}

// Attaches a control message.
template <typename Value>
void put_note(msghdr& header, std::span<std::byte> room, int level, int type, const Value& value) {
  cmsghdr note{};
  note.cmsg_len = CMSG_LEN(sizeof value);
  note.cmsg_level = level;
  note.cmsg_type = type;
  std::byte* const at = room.data() + header.msg_controllen;
  std::memcpy(at, &note, sizeof note);
  std::memcpy(at + CMSG_LEN(0), &value, sizeof value);
  header.msg_control = room.data();
  header.msg_controllen += CMSG_SPACE(sizeof value);
}

// Sends by that device, from the socket's own address, since otherwise the kernel would choose one.
void put_device(msghdr& header, std::span<std::byte> room, std::uint32_t device,
                const SocketAddress& local) {
  if (local.is_v6()) {
    const in6_pktinfo info{local.v6.sin6_addr, device};
    return put_note(header, room, IPPROTO_IPV6, IPV6_PKTINFO, info);
  }
  in_pktinfo info{};
  info.ipi_ifindex = static_cast<int>(device);
  info.ipi_spec_dst = local.v4.sin_addr;
  put_note(header, room, IPPROTO_IP, IP_PKTINFO, info);
}

}  // namespace

UdpSender::UdpSender(int fd, const SocketAddress& local, proto::Queue queue,
                     const UdpSendLimits& limits, UdpWayQuestions ask, const RemoteTable& remotes,
                     std::vector<UdpRemote>& addresses)
    : fd_(fd),
      local_(local),
      queue_(queue),
      limits_(limits),
      ask_(std::move(ask)),
      remotes_(remotes),
      addresses_(addresses) {}

bool UdpSender::sendable(const TxPacket& packet) const {
  return remotes_.is_open(packet.remote) &&
         packet.header_bytes + std::uint64_t{packet.payload_bytes} <= limits_.datagram_bytes;
}

void UdpSender::add(const TxPacket& packet) {
  vectors_[vector_count_++] = {packet.buffer->bytes, packet.header_bytes};
  if (packet.payload_bytes > 0) {
    // sendmsg only reads; iovec has no const.
    vectors_[vector_count_++] = {const_cast<std::byte*>(packet.payload), packet.payload_bytes};
  }
}

bool UdpSender::lay_out_one(std::span<const TxPacket> packets, std::size_t first) {
  if (message_count_ == kMaxMessages || vector_count_ + 2 > kMaxVectors) return false;
  const TxPacket& head = packets[first];
  UdpRemote& remote = addresses_[static_cast<std::size_t>(head.remote)];
  if (!remote.is_device_known && !answers_stranger(head)) ask_.choose_device(remote);
  const std::uint32_t segment = length_of(head);
  const std::size_t first_vector = vector_count_;
  add(head);
  std::size_t end = first + 1;
  std::size_t total = segment;
  if (limits_.segment && remote.segment && segment <= remote.whole_bytes) {
    const std::size_t limit = std::min(packets.size(), first + kMaxSegments);
    while (end < limit && vector_count_ + 2 <= kMaxVectors) {
      const TxPacket& next = packets[end];
      if (next.remote != head.remote || !sendable(next)) break;
      const std::uint32_t bytes = length_of(next);
      if (bytes > segment || total + bytes > limits_.message_bytes) break;
      add(next);
      total += bytes;
      ++end;
      if (bytes < segment) break;  // only the last segment may be shorter
    }
  }
  messages_[message_count_] = {first, end, &remote, segment};
  SocketAddress& to = queue_ == proto::Queue::data ? remote.data : remote.control;
  msghdr& header = headers_[message_count_].msg_hdr;
  header = {};
  header.msg_name = &to.any;
  header.msg_namelen = to.length();
  header.msg_iov = &vectors_[first_vector];
  header.msg_iovlen = vector_count_ - first_vector;
  std::array<std::byte, sizeof(Control)>& room = controls_[message_count_].bytes;
  if (end - first > 1) {
    put_note(header, room, SOL_UDP, UDP_SEGMENT, static_cast<std::uint16_t>(segment));
  }
  if (remote.device != 0) put_device(header, room, remote.device, local_);
  ++message_count_;
  return true;
}

std::size_t UdpSender::lay_out(std::span<const TxPacket> packets) {
  message_count_ = 0;
  vector_count_ = 0;
  for (std::size_t i = 0; i < packets.size();) {
    if (!sendable(packets[i])) {
      ++i;
    } else if (lay_out_one(packets, i)) {
      i = messages_[message_count_ - 1].end;
    } else {
      break;
    }
  }
  return message_count_;
}

UdpSender::Outcome UdpSender::refused(int error, std::size_t& done) {
  const Message& message = messages_[0];
  switch (error) {
    case EINTR: return Outcome::retry;
    case EAGAIN:
    case ENOBUFS:
    case ENOMEM:
      ++stats_.full;
      done += message.first;
      return Outcome::full;
    case EINVAL:    // segments longer than the path MTU
    case EMSGSIZE:  // the same, on newer kernels
    case EIO:       // the device can't checksum segments
    case EOPNOTSUPP:
      if (message.end - message.first > 1) {
        give_up_segments(message);
        return Outcome::retry;
      }
      [[fallthrough]];
    default:  // unreachable, filtered or too long: treated as lost on the way
      stats_.lost += message.end - message.first;
      stats_.last_error = error;
      done += message.end;
      return Outcome::retry;
  }
}

void UdpSender::ask_for_way(UdpRemote& remote) {
  const std::uint32_t whole = ask_.whole_bytes(remote.data);
  if (whole > 0) has_way_changed_ |= std::exchange(remote.whole_bytes, whole) != whole;
  remote.alone = 0;
}

void UdpSender::tell(UdpWayNews::Kind kind, const Message& message) {
  const UdpRemote& remote = *message.remote;
  news_ = UdpWayNews{kind, remote.data, message.segment, remote.whole_bytes};
}

// Stops segmenting until the next look at the path.
void UdpSender::give_up_segments(const Message& message) {
  UdpRemote& remote = *message.remote;
  ask_for_way(remote);
  const bool too_long = message.segment > remote.whole_bytes;
  if (!too_long) remote.segment = false;
  if (remote.refused_bytes == 0) {
    ++stats_.unsegmented;
    tell(too_long ? UdpWayNews::Kind::fragmented : UdpWayNews::Kind::unsegmented, message);
  }
  remote.refused_bytes = message.segment;
}

// Counts a message that the kernel took.
void UdpSender::count(const Message& message) {
  UdpRemote& remote = *message.remote;
  const std::size_t packets = message.end - message.first;
  stats_.datagrams += packets;
  if (packets > 1) {
    if (remote.refused_bytes == 0 || message.segment < remote.refused_bytes) return;
    remote.refused_bytes = 0;
    ++stats_.resumed;
    tell(UdpWayNews::Kind::resumed, message);
    return;
  }
  if (message.segment <= proto::PacketBuffer::kBytes) return;
  if (message.segment > remote.whole_bytes) ++stats_.fragmented;
  if (++remote.alone < remote.patience) return;
  const bool went_whole = message.segment <= remote.whole_bytes;
  ask_for_way(remote);
  remote.segment = true;
  remote.patience = std::min(remote.patience * 2, UdpRemote::kMostPatience);
  if (went_whole && message.segment > remote.whole_bytes && remote.refused_bytes == 0) {
    tell(UdpWayNews::Kind::fragmented, message);
  }
}

// For one message, sendmsg is 0.1 us cheaper than sendmmsg.
int UdpSender::submit(std::size_t messages) {
  const CancellationHold hold;
  if (messages > 1) {
    return ::sendmmsg(fd_, headers_.data(), static_cast<unsigned>(messages), MSG_DONTWAIT);
  }
  return ::sendmsg(fd_, &headers_[0].msg_hdr, MSG_DONTWAIT) < 0 ? -1 : 1;
}

std::size_t UdpSender::send(std::span<const TxPacket> packets) {
  std::size_t done = 0;
  while (done < packets.size()) {
    const std::span<const TxPacket> rest = packets.subspan(done);
    const std::size_t messages = lay_out(rest);
    if (messages == 0) return packets.size();  // no remaining packet can be sent
    ++stats_.calls;
    const int sent = submit(messages);
    if (sent < 0) {
      if (refused(errno, done) == Outcome::full) return done;
      continue;
    }
    for (int i = 0; i < sent; ++i) count(messages_[static_cast<std::size_t>(i)]);
    stats_.messages += static_cast<std::uint64_t>(sent);
    if (sent > 0) done += messages_[static_cast<std::size_t>(sent) - 1].end;
  }
  return done;
}

}  // namespace hawser::engine
