// The sending side of one UDP socket: neighbours of a burst that go to the same remote and have the
// same length travel as one message, which the kernel or the device cuts up (UDP_SEGMENT); many
// messages go by one system call. Headers and payloads are gathered, nothing is copied here.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/driver/remote_table.hpp"
#include "engine/driver/udp_address.hpp"
#include "proto/nic.hpp"

namespace hawser::engine {

struct UdpRemote {
  SocketAddress data;
  SocketAddress control;
  bool segment = true;  // until a segmented send to it is refused
};

struct UdpSendStats {
  std::uint64_t calls = 0;     // system calls
  std::uint64_t messages = 0;  // segmented ones count once
  std::uint64_t datagrams = 0;
  std::uint64_t full = 0;         // times that the kernel had no room
  std::uint64_t lost = 0;         // datagrams that could not be sent
  std::uint64_t unsegmented = 0;  // remotes that segmentation was given up for
  int last_error = 0;             // errno of the last loss
};

inline constexpr std::uint32_t kMaxSegments = 64;  // UDP_MAX_SEGMENTS of older kernels

struct UdpSendLimits {
  bool segment = true;
  std::uint32_t datagram_bytes = 0;
  std::uint32_t message_bytes = 0;  // of all segments together
};

class UdpSender {
 public:
  // `remotes` says which handles are open, `addresses` holds what belongs to them; both outlive
  // this.
  UdpSender(int fd, proto::Queue queue, const UdpSendLimits& limits, const RemoteTable& remotes,
            std::vector<UdpRemote>& addresses);

  // Sends a prefix of `packets`, all of this queue; returns its length. What cannot be sent counts
  // as sent. The kernel has copied the bytes: the buffers are free.
  [[nodiscard]] std::size_t send(std::span<const proto::TxPacket> packets);

  [[nodiscard]] const UdpSendStats& stats() const { return stats_; }

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
  // Lays out messages from the front of `packets`; returns how many.
  [[nodiscard]] std::size_t lay_out(std::span<const proto::TxPacket> packets);
  // Lays out one message that starts at `packets[first]`; false if the arrays are full.
  [[nodiscard]] bool lay_out_one(std::span<const proto::TxPacket> packets, std::size_t first);
  void add(const proto::TxPacket& packet);
  // Gives them to the kernel, which takes a prefix; returns its length, or -1 with errno set.
  [[nodiscard]] int submit(std::size_t messages);
  // The first message was refused with `error`; `done` moves on if it is given up.
  [[nodiscard]] Outcome refused(int error, std::size_t& done);

  int fd_;
  proto::Queue queue_;
  UdpSendLimits limits_;
  const RemoteTable& remotes_;
  std::vector<UdpRemote>& addresses_;

  std::array<Message, kMaxMessages> messages_;
  std::array<mmsghdr, kMaxMessages> headers_{};
  std::array<iovec, kMaxVectors> vectors_{};
  struct alignas(cmsghdr) Control {
    std::array<std::byte, CMSG_SPACE(sizeof(std::uint16_t))> bytes;
  };
  std::array<Control, kMaxMessages> controls_{};
  std::size_t message_count_ = 0;
  std::size_t vector_count_ = 0;
  UdpSendStats stats_;
};

}  // namespace hawser::engine
