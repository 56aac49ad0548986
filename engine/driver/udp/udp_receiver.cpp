// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/udp/udp_receiver.hpp"

#include <netinet/in.h>
#include <netinet/udp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "engine/cancellation.hpp"
#include "proto/base/assert.hpp"

namespace hawser::engine {
namespace {

using proto::RxPacket;

constexpr std::uint32_t kAlignment = 8;
constexpr std::size_t kMaxCalls = 64;
constexpr int kMaxAttempts = 4;

constexpr std::uint32_t aligned(std::uint32_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

template <typename T>
T value_of(const cmsghdr& control) {
  T value{};
  std::memcpy(&value, CMSG_DATA(&control), sizeof value);
  return value;
}

struct Notes {
  std::uint32_t piece = 0;  // 0: not coalesced
  bool congestion_experienced = false;
  std::uint32_t device = 0;  // 0: the kernel did not report it
};

Notes read_notes(const msghdr& header) {
  constexpr int kEcnMask = 3;
  Notes notes;
  auto* message = const_cast<msghdr*>(&header);  // CMSG_NXTHDR takes no const
  for (cmsghdr* c = CMSG_FIRSTHDR(message); c != nullptr; c = CMSG_NXTHDR(message, c)) {
    if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
      notes.piece = static_cast<std::uint32_t>(std::max(0, value_of<int>(*c)));
    } else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) {
      notes.congestion_experienced = (value_of<std::uint8_t>(*c) & kEcnMask) == kEcnMask;
    } else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS) {
      notes.congestion_experienced = (value_of<int>(*c) & kEcnMask) == kEcnMask;
    } else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
      notes.device = static_cast<std::uint32_t>(value_of<in_pktinfo>(*c).ipi_ifindex);
    } else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
      notes.device = value_of<in6_pktinfo>(*c).ipi6_ifindex;
    }
  }
  return notes;
}

// Moves the pieces apart so that each starts aligned. It begins with the last, because each moves
// up.
void align_pieces(std::byte* data, std::uint32_t bytes, std::uint32_t piece) {
  for (std::uint32_t i = (bytes - 1) / piece; i > 0; --i) {
    const std::uint32_t from = i * piece;
    std::memmove(data + i * aligned(piece), data + from, std::min(piece, bytes - from));
  }
}

}  // namespace

UdpReceiver::UdpReceiver(int fd, proto::Queue queue)
    : fd_(fd), queue_(queue), memory_(allocate_aligned(kSlabs * kSlabBytes)) {
  static_assert(kSlabBytes % kAlignment == 0);
  free_.reserve(kSlabs);
  spent_.reserve(kSlabs);
  for (std::uint32_t i = kSlabs; i-- > 0;) free_.push_back(i);
}

void UdpReceiver::expect_device(std::uint32_t device, bool is_v6) {
  const int on = 1;
  device_ = device;
  if (device == 0 || std::exchange(hears_device_, true)) return;
  (void)(is_v6 ? ::setsockopt(fd_, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof on)
               : ::setsockopt(fd_, IPPROTO_IP, IP_PKTINFO, &on, sizeof on));
}

std::size_t UdpReceiver::receive(std::span<RxPacket> packets) {
  packets = packets.first(std::min(packets.size(), proto::Nic::kMaxRxBurst));
  if (!spent_.empty()) {
    free_.insert(free_.end(), spent_.rbegin(), spent_.rend());
    spent_.clear();
    prepared_ = 0;
  }
  std::size_t count = hand_out(packets);
  // Each call but the last brings something. The bound limits a turn that is flooded with malformed
  // messages.
  for (std::size_t calls = 0; count < packets.size() && calls < kMaxCalls; ++calls) {
    const bool empty = fill(packets.size() - count);
    count += hand_out(packets.subspan(count));
    if (empty) break;
  }
  stats_.datagrams += count;
  return count;
}

bool UdpReceiver::fill(std::size_t want) {
  // Nothing is pending here, and the datagrams handed out in this call occupy at most as many
  // slabs.
  const std::size_t messages = std::clamp<std::size_t>(want / pieces_per_message_, 1, kBatch);
  HAWSER_ASSERT(free_.size() >= messages);
  for (std::size_t i = prepared_; i < messages; ++i) {
    const std::uint32_t index = free_[free_.size() - 1 - i];
    batch_.vectors[i] = {slab(index), kMaxMessageBytes + 1};
    msghdr& header = batch_.headers[i].msg_hdr;
    header = {};
    header.msg_iov = &batch_.vectors[i];
    header.msg_iovlen = 1;
    header.msg_control = batch_.controls[i].data();
    header.msg_controllen = batch_.controls[i].size();
  }
  prepared_ = std::max(prepared_, messages);
  const std::size_t got = call(static_cast<unsigned>(messages));
  if (got > 0) prepared_ = 0;
  std::array<std::uint32_t, kBatch> rejected;
  std::size_t rejections = 0;
  std::size_t pieces = 0;
  for (std::size_t i = 0; i < got; ++i) {
    const std::uint32_t index = free_.back();
    free_.pop_back();
    const std::size_t in_message = accept(index, batch_.headers[i]);
    pieces += in_message;
    if (in_message == 0) rejected[rejections++] = index;
  }
  free_.insert(free_.end(), rejected.begin(), rejected.begin() + rejections);
  if (pieces > 0) pieces_per_message_ = (pieces + got - 1) / got;
  if (got == messages) return false;
  overruns_.on_empty();
  return true;
}

std::size_t UdpReceiver::call(unsigned messages) {
  const CancellationHold hold;
  // A pending socket error is reported by one call and then cleared, so the call is repeated.
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    ++stats_.calls;
    const int received = ::recvmmsg(fd_, batch_.headers.data(), messages, MSG_DONTWAIT, nullptr);
    if (received >= 0) {
      stats_.messages += static_cast<std::uint64_t>(received);
      return static_cast<std::size_t>(received);
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
    if (errno != EINTR) ++stats_.errors;
  }
  return 0;
}

std::size_t UdpReceiver::accept(std::uint32_t index, const mmsghdr& header) {
  const std::uint32_t bytes = header.msg_len;
  const Notes notes = read_notes(header.msg_hdr);
  const std::uint32_t piece = notes.piece == 0 ? bytes : std::min(notes.piece, bytes);
  const std::size_t pieces = bytes == 0 ? 0 : (bytes + piece - 1) / piece;
  overruns_.on_message(std::max<std::size_t>(pieces, 1), piece);
  if (pieces == 0 || pieces > kMaxPieces || (header.msg_hdr.msg_flags & MSG_TRUNC) != 0) {
    ++stats_.malformed;
    return 0;
  }
  constexpr std::uint32_t kLoopback = 1;  // the first device of each network namespace
  if (device_ != 0 && notes.device > kLoopback && notes.device != device_) {
    stats_.by_other_devices += pieces;
  }
  if (pieces > 1 && piece % kAlignment != 0) align_pieces(slab(index), bytes, piece);
  pending_.put({index, 0, bytes, piece, notes.congestion_experienced});
  return pieces;
}

std::size_t UdpReceiver::hand_out(std::span<RxPacket> packets) {
  std::size_t count = 0;
  while (count < packets.size() && !pending_.empty()) {
    Message& message = pending_.front();
    const std::uint32_t bytes = std::min(message.piece, message.left);
    packets[count++] = {slab(message.slab) + message.offset, bytes, queue_,
                        message.congestion_experienced};
    message.offset += aligned(message.piece);
    message.left -= bytes;
    if (message.left == 0) spent_.push_back(pending_.pop().slab);
  }
  return count;
}

}  // namespace hawser::engine
