#include "engine/driver/udp_sender.hpp"

#include <netinet/udp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "engine/cancellation.hpp"

namespace hawser::engine {
namespace {

using proto::TxPacket;

std::uint32_t length_of(const TxPacket& packet) {
  return packet.header_bytes + packet.payload_bytes;
}

void put_segment(msghdr& header, std::span<std::byte> control, std::uint32_t segment) {
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  cmsghdr* const message = CMSG_FIRSTHDR(&header);
  message->cmsg_level = SOL_UDP;
  message->cmsg_type = UDP_SEGMENT;
  message->cmsg_len = CMSG_LEN(sizeof(std::uint16_t));
  const auto value = static_cast<std::uint16_t>(segment);
  std::memcpy(CMSG_DATA(message), &value, sizeof value);
}

}  // namespace

UdpSender::UdpSender(int fd, proto::Queue queue, const UdpSendLimits& limits,
                     const RemoteTable& remotes, std::vector<UdpRemote>& addresses)
    : fd_(fd), queue_(queue), limits_(limits), remotes_(remotes), addresses_(addresses) {}

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
  const std::uint32_t segment = length_of(head);
  const std::size_t first_vector = vector_count_;
  add(head);
  std::size_t end = first + 1;
  std::size_t total = segment;
  if (limits_.segment && remote.segment) {
    const std::size_t limit = std::min(packets.size(), first + kMaxSegments);
    while (end < limit && vector_count_ + 2 <= kMaxVectors) {
      const TxPacket& next = packets[end];
      if (next.remote != head.remote || !sendable(next)) break;
      const std::uint32_t bytes = length_of(next);
      if (bytes > segment || total + bytes > limits_.message_bytes) break;
      add(next);
      total += bytes;
      ++end;
      if (bytes < segment) break;  // only the last may be shorter
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
  if (end - first > 1) put_segment(header, controls_[message_count_].bytes, segment);
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
    case EINVAL:    // segments longer than the path's MTU
    case EMSGSIZE:  // the same, on newer kernels
    case EIO:       // the device can't checksum segments
    case EOPNOTSUPP:
      if (message.end - message.first > 1) {
        message.remote->segment = false;
        ++stats_.unsegmented;
        return Outcome::retry;
      }
      [[fallthrough]];
    default:  // unreachable, filtered, too long: as good as lost on the way
      stats_.lost += message.end - message.first;
      stats_.last_error = error;
      done += message.end;
      return Outcome::retry;
  }
}

// The call for one message is 0.1 us cheaper than the one for many.
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
    if (messages == 0) return packets.size();  // none of the rest can be sent
    ++stats_.calls;
    const int sent = submit(messages);
    if (sent < 0) {
      if (refused(errno, done) == Outcome::full) return done;
      continue;
    }
    for (int i = 0; i < sent; ++i) {
      const Message& message = messages_[static_cast<std::size_t>(i)];
      stats_.datagrams += message.end - message.first;
    }
    stats_.messages += static_cast<std::uint64_t>(sent);
    if (sent > 0) done += messages_[static_cast<std::size_t>(sent) - 1].end;
  }
  return done;
}

}  // namespace hawser::engine
