// SPDX-License-Identifier: Apache-2.0
// The sending side of one UDP socket. Neighbours of a burst with the same remote and the same
// length travel as one message, which the kernel or the device segments (UDP_SEGMENT). One system
// call sends many messages. Headers and payloads are gathered, not copied.
//
// The kernel refuses segments that are longer than the path MTU, or that the device can't make.
// Such packets then go one by one, the long ones in IP fragments. After every `patience` large
// packets that went alone, the sender asks for the path MTU again, and resumes segmentation if
// segments fit. The sender counts packets because it has no clock. With few packets the delay does
// not matter.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/driver/remote_table.hpp"
#include "engine/driver/udp/udp_address.hpp"
#include "proto/nic.hpp"

namespace hawser::engine {

struct UdpRemote {
  static constexpr std::uint32_t kFirstPatience = 256;
  static constexpr std::uint32_t kMostPatience = 16'384;
  static constexpr std::uint32_t kUnknownBytes = ~0u;

  SocketAddress data;
  SocketAddress control;
  std::uint32_t device = 0;     // named with each send; 0: the routing tables choose
  bool is_device_known = true;  // false: ask again before the next send
  std::uint32_t whole_bytes =
      kUnknownBytes;                // the longest datagram that goes unfragmented, as last asked
  bool segment = true;              // false: refused for another reason than the length
  std::uint32_t refused_bytes = 0;  // length of the segments refused last; 0: none are refused
  std::uint32_t alone = 0;          // large packets sent alone since the last look at the path
  std::uint32_t patience = kFirstPatience;  // such packets until the next look
};

// A change in how long packets reach a remote.
struct UdpWayNews {
  enum class Kind : std::uint8_t { fragmented, unsegmented, resumed };
  Kind kind = Kind::resumed;
  SocketAddress to;
  std::uint32_t bytes = 0;        // length of such a packet
  std::uint32_t whole_bytes = 0;  // longest datagram that the path carries unfragmented
};

struct UdpSendStats {
  std::uint64_t calls = 0;     // system calls
  std::uint64_t messages = 0;  // segmented ones count once
  std::uint64_t datagrams = 0;
  std::uint64_t full = 0;         // times that the kernel had no room
  std::uint64_t lost = 0;         // datagrams that could not be sent
  std::uint64_t fragmented = 0;   // datagrams too long for their path to carry whole
  std::uint64_t unsegmented = 0;  // times that segmentation to a remote was given up
  std::uint64_t resumed = 0;      // times that it was taken up again
  int last_error = 0;             // errno of the last loss
};

inline constexpr std::uint32_t kMaxSegments = 64;  // UDP_MAX_SEGMENTS of older kernels

struct UdpSendLimits {
  bool segment = true;
  std::uint32_t datagram_bytes = 0;
  std::uint32_t message_bytes = 0;  // limit for all segments together
};

// The questions that a sender asks its NIC about a remote.
struct UdpWayQuestions {
  // As UdpWays::longest_whole_datagram, from the socket's address.
  std::function<std::uint32_t(const SocketAddress&)> whole_bytes;
  // Finds out the device, and sets is_device_known.
  std::function<void(UdpRemote&)> choose_device;
};

class UdpSender {
 public:
  // `local` is the socket's address. `remotes` tells which handles are open, and `addresses` holds
  // their data. All outlive this.
  UdpSender(int fd, const SocketAddress& local, proto::Queue queue, const UdpSendLimits& limits,
            UdpWayQuestions ask, const RemoteTable& remotes, std::vector<UdpRemote>& addresses);

  // Sends a prefix of `packets`, which are all of this queue, and returns its length. Packets that
  // can't be sent count as sent. The kernel has copied the bytes, so the buffers are free.
  [[nodiscard]] std::size_t send(std::span<const proto::TxPacket> packets);

  [[nodiscard]] const UdpSendStats& stats() const { return stats_; }
  // The newest change since the last call.
  [[nodiscard]] std::optional<UdpWayNews> take_news() { return std::exchange(news_, std::nullopt); }
  // Whether a path was found to carry more or less than before, since the last call.
  [[nodiscard]] bool take_way_changes() { return std::exchange(has_way_changed_, false); }

 private:
  static constexpr std::size_t kMaxMessages = 64;
  static constexpr std::size_t kMaxVectors = 512;

  struct Message {
    std::size_t first = 0;  // packets before it can't be sent
    std::size_t end = 0;
    UdpRemote* remote = nullptr;
    std::uint32_t segment = 0;
  };
  enum class Outcome : std::uint8_t { retry, full };

  [[nodiscard]] bool sendable(const proto::TxPacket& packet) const;
  // Lays out messages from the front of `packets`. Returns their number.
  [[nodiscard]] std::size_t lay_out(std::span<const proto::TxPacket> packets);
  // Lays out one message that starts at `packets[first]`. Returns false if the arrays are full.
  [[nodiscard]] bool lay_out_one(std::span<const proto::TxPacket> packets, std::size_t first);
  void add(const proto::TxPacket& packet);
  // Gives the messages to the kernel, which takes a prefix. Returns its length, or -1 with errno
  // set.
  [[nodiscard]] int submit(std::size_t messages);
  // The kernel refused the first message with `error`. Advances `done` if the message is given up.
  [[nodiscard]] Outcome refused(int error, std::size_t& done);
  void give_up_segments(const Message& message);
  void count(const Message& message);
  void ask_for_way(UdpRemote& remote);
  void tell(UdpWayNews::Kind kind, const Message& message);

  int fd_;
  const SocketAddress& local_;
  proto::Queue queue_;
  UdpSendLimits limits_;
  UdpWayQuestions ask_;
  const RemoteTable& remotes_;
  std::vector<UdpRemote>& addresses_;

  std::array<Message, kMaxMessages> messages_;
  std::array<mmsghdr, kMaxMessages> headers_{};
  std::array<iovec, kMaxVectors> vectors_{};
  struct alignas(cmsghdr) Control {
    std::array<std::byte, CMSG_SPACE(sizeof(std::uint16_t)) + CMSG_SPACE(sizeof(in6_pktinfo))>
        bytes;
  };
  std::array<Control, kMaxMessages> controls_{};
  std::size_t message_count_ = 0;
  std::size_t vector_count_ = 0;
  UdpSendStats stats_;
  std::optional<UdpWayNews> news_;
  bool has_way_changed_ = false;
};

}  // namespace hawser::engine
