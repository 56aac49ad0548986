// SPDX-License-Identifier: Apache-2.0
// The UDP NIC: an IP address of this host, with a data and a control socket on it. No hardware and
// no privilege needed. The kernel copies at the send, so buffers are free at once and the cookies
// come with the next reap.
//
// One entropy: a path hashes on the data sockets' ports.
//
// The NIC is the device that has the address, but for loopback's addresses, each of which is a NIC
// of its own. What it sends goes by that device where the routing tables have equal ways by others
// (udp_route.hpp). If the device loses the address, the NIC says `down`; it says `up` when the
// address is back, or with another one that the device has got, on the same sockets. What else goes
// wrong with the device shows as silence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/driver/remote_table.hpp"
#include "engine/driver/udp/udp_address.hpp"
#include "engine/driver/udp/udp_device.hpp"
#include "engine/driver/udp/udp_receiver.hpp"
#include "engine/driver/udp/udp_screen.hpp"
#include "engine/driver/udp/udp_sender.hpp"
#include "engine/driver/udp/udp_socket.hpp"
#include "proto/base/ring.hpp"
#include "proto/nic.hpp"

namespace hawser::engine {

class UdpLook;

struct UdpNicConfig {
  std::string address;                            // "127.0.0.2", "::1", "fe80::1%eth0"
  std::uint64_t receive_bytes = 4 * 1024 * 1024;  // asked of the kernel for each socket
  std::uint32_t max_remotes = 256;
  std::uint32_t send_slots = 4096;           // sends between tx_burst and reap
  std::uint32_t datagram_bytes = 4096 + 64;  // of a full packet, to tell caps().burst and
                                             // caps().receive_bytes
  // Off: as on a kernel without it.
  bool segment = true;   // UDP_SEGMENT
  bool coalesce = true;  // UDP_GRO
  bool screen = true;    // SO_ATTACH_REUSEPORT_CBPF
  // Off: as over a fabric with an end-to-end check of its own.
  bool checksum = true;
};

// Per socket; running freely.
struct UdpQueueStats {
  UdpSendStats send;
  UdpReceiveStats receive;
};

class UdpNic final : public proto::Nic {
 public:
  // `pool` outlives the NIC. Throws Error: no such address here, no port free, not permitted.
  UdpNic(const UdpNicConfig& config, proto::PacketPool& pool);
  UdpNic(const UdpNic&) = delete;
  UdpNic& operator=(const UdpNic&) = delete;

  [[nodiscard]] UdpQueueStats stats(proto::Queue queue) const;
  // The newest since the last time.
  [[nodiscard]] std::optional<UdpWayNews> take_news();

  // `look`, which outlives the use of this, decides which queues are asked; without one, all are.
  void follow(UdpLook& look) { look_ = &look; }
  void expect(proto::Queue queue, Outlook outlook) { port(queue).outlook = outlook; }
  // Whether rx_burst has brought something since the last time, or will without a system call.
  [[nodiscard]] bool take_heard(proto::Queue queue) {
    Port& from = port(queue);
    return std::exchange(from.heard, false) || from.receiver.holds_some();
  }

  // Whether it is a device, whose address may change.
  [[nodiscard]] bool has_device() const { return !device_.name.empty(); }
  // Has the device still its address, or another one? After a change of this host's addresses, and
  // now and then while is_lost().
  void look_at_address();
  [[nodiscard]] bool is_lost() const { return !here_; }

  // As it was opened; the address may be another one by now.
  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] const proto::NicCaps& caps() const override { return caps_; }
  [[nodiscard]] const proto::NicAddress& address() const override { return address_; }
  [[nodiscard]] bool can_address(const proto::NicAddress& remote) const override;
  [[nodiscard]] Status open_remote(const proto::NicAddress& remote,
                                   proto::RemoteHandle& handle) override;
  void close_remote(proto::RemoteHandle handle) override { remotes_.close(handle); }
  [[nodiscard]] std::uint32_t max_datagram_to(const proto::NicAddress& remote) override;
  [[nodiscard]] std::size_t tx_burst(std::span<const proto::TxPacket> packets) override;
  [[nodiscard]] std::size_t reap(std::span<std::uint64_t> cookies) override;
  [[nodiscard]] std::size_t rx_burst(proto::Queue queue,
                                     std::span<proto::RxPacket> packets) override;
  [[nodiscard]] Outlook outlook(proto::Queue queue) override;
  [[nodiscard]] std::size_t events(std::span<proto::NicEvent> events) override;
  [[nodiscard]] std::uint64_t overruns() const override;
  [[nodiscard]] proto::NicDetours detours() const override;
  void screen(const proto::Screen& screen) override;
  [[nodiscard]] std::uint64_t screened() const override;
  [[nodiscard]] std::size_t descriptors(std::span<int> fds) const override;
  [[nodiscard]] Status register_memory(const void*, std::size_t) override { return Status::ok; }
  void deregister_memory(const void*, std::size_t) override {}

 private:
  struct Port {
    Port(UdpNic& nic, const UdpNicConfig& config, proto::Queue queue);
    UdpSocket socket;
    bool segments;
    UdpSender sender;
    UdpReceiver receiver;
    std::optional<UdpScreen> screen;  // goes before the socket
    Outlook outlook = Outlook::ask;
    bool heard = false;
  };
  [[nodiscard]] Port& port(proto::Queue queue) {
    return queue == proto::Queue::data ? data_ : control_;
  }
  [[nodiscard]] const Port& port(proto::Queue queue) const {
    return queue == proto::Queue::data ? data_ : control_;
  }
  // Which device is to be named with sends there; 0: none.
  [[nodiscard]] std::uint32_t device_to(const SocketAddress& remote) const;
  [[nodiscard]] std::uint32_t whole_bytes_to(const SocketAddress& remote) const;
  void choose_device(UdpRemote& remote);
  // The NIC works again, at that address.
  void return_at(const SocketAddress& address);
  [[nodiscard]] bool rebind(const SocketAddress& address);
  // Ends the sends of packets whose bytes the kernel has, or which are lost.
  void complete(std::span<const proto::TxPacket> packets);

  proto::PacketPool& pool_;
  std::string name_;
  SocketAddress local_;
  UdpDevice device_;
  bool here_ = true;       // the device has the address
  bool bound_ = true;      // so have the sockets
  bool fell_ = false;      // an event is due: down
  bool told_here_ = true;  // an event was: up
  std::uint32_t max_datagram_bytes_;
  RemoteTable remotes_;
  std::vector<UdpRemote> addresses_;  // by handle
  Port data_;
  Port control_;
  proto::NicAddress address_;
  proto::NicCaps caps_;
  UdpLook* look_ = nullptr;
  bool screens_;
  std::optional<proto::Screen> screen_;
  std::uint64_t screened_before_ = 0;  // at addresses that it had
  proto::Ring<std::uint64_t> cookies_;
};

}  // namespace hawser::engine
