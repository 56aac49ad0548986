// SPDX-License-Identifier: Apache-2.0
// The UDP NIC: an IP address of this host, with a data and a control socket on it. It needs no
// special hardware and no privilege. The kernel copies packets when they are sent, so buffers are
// free at once. The next reap returns their cookies.
//
// The NIC has one entropy: switches hash its paths on the ports of the data sockets.
//
// A NIC stands for the device that has its address. Loopback's addresses are the exception: each is
// a NIC of its own. If the routing tables have equal routes by several devices, the NIC sends by
// its own device (udp_route.hpp). If the device loses the address, the NIC reports `down`. It
// reports `up` when the device has that address back, or another one, on the same sockets. A NIC
// that took another address leaves it for one that is closer to its own (Closeness). Other failures
// of the device show only as silence.
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
#include "engine/driver/udp/udp_route.hpp"
#include "engine/driver/udp/udp_screen.hpp"
#include "engine/driver/udp/udp_sender.hpp"
#include "engine/driver/udp/udp_socket.hpp"
#include "engine/driver/udp/udp_way.hpp"
#include "proto/base/ring.hpp"
#include "proto/nic.hpp"

namespace hawser::engine {

class UdpLook;

struct UdpNicConfig {
  std::string address;                            // "127.0.0.2", "::1", "fe80::1%eth0"
  std::uint64_t receive_bytes = 4 * 1024 * 1024;  // asked of the kernel for each socket
  std::uint32_t max_remotes = 256;
  std::uint32_t send_slots = 4096;           // sends between tx_burst and reap
  std::uint32_t datagram_bytes = 4096 + 64;  // of a full packet, for caps().burst and receive_bytes
  // Off: behave as on a kernel without the feature.
  bool segment = true;   // UDP_SEGMENT
  bool coalesce = true;  // UDP_GRO
  bool screen = true;    // SO_ATTACH_REUSEPORT_CBPF
  // Off: behave as over a fabric with an end-to-end check of its own.
  bool checksum = true;
};

// Counters per socket, never reset.
struct UdpQueueStats {
  UdpSendStats send;
  UdpReceiveStats receive;
};

class UdpNic final : public proto::Nic {
 public:
  // `pool` outlives the NIC. Throws Error if this host has no such address, no port is free, or
  // permission is missing.
  UdpNic(const UdpNicConfig& config, proto::PacketPool& pool);
  UdpNic(const UdpNic&) = delete;
  UdpNic& operator=(const UdpNic&) = delete;

  [[nodiscard]] UdpQueueStats stats(proto::Queue queue) const;
  // The newest change since the last call.
  [[nodiscard]] std::optional<UdpWayNews> take_news();

  // `look` decides which queues are asked; without one, all are. It must outlive its use here.
  void follow(UdpLook& look) { look_ = &look; }
  void expect(proto::Queue queue, Outlook outlook) { port(queue).outlook = outlook; }
  // True if rx_burst has brought something since the last call, or can do so without a system call.
  [[nodiscard]] bool take_heard(proto::Queue queue) {
    Port& from = port(queue);
    return std::exchange(from.heard, false) || from.receiver.holds_some();
  }

  // True if the NIC has a device, whose address may change.
  [[nodiscard]] bool has_device() const { return !device_.name.empty(); }
  // Which addresses a NIC takes in place of a lost one: those of the same network, or any. The lost
  // one often comes back at once (a renewed lease), so any other has to wait.
  enum class Substitute : std::uint8_t { near, any };
  // Checks whether the device still has its address, or a closer one to what it was opened with.
  // Call it after a change of this host's addresses, and now and then while is_lost().
  void look_at_address(Substitute substitute = Substitute::near);
  [[nodiscard]] bool is_lost() const { return !here_; }
  // Makes the NIC find out again by which device each remote is reached, before it sends there, and
  // lets the endpoint ask again what the ways carry.
  // Call it after a change of this host's routes, but not often: each answer costs system calls.
  void forget_routes();

  // The name at opening. The address may have changed since.
  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] const proto::NicCaps& caps() const override { return caps_; }
  [[nodiscard]] const proto::NicAddress& address() const override { return address_; }
  [[nodiscard]] bool can_address(const proto::NicAddress& remote) const override;
  [[nodiscard]] Status open_remote(const proto::NicAddress& remote,
                                   proto::RemoteHandle& handle) override;
  void close_remote(proto::RemoteHandle handle) override;
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
    std::optional<UdpScreen> screen;  // destroyed before the socket
    Outlook outlook = Outlook::ask;
    bool heard = false;
  };
  [[nodiscard]] Port& port(proto::Queue queue) {
    return queue == proto::Queue::data ? data_ : control_;
  }
  [[nodiscard]] const Port& port(proto::Queue queue) const {
    return queue == proto::Queue::data ? data_ : control_;
  }
  // The device to name when sending to `remote`; 0: none.
  [[nodiscard]] std::uint32_t device_to(const SocketAddress& remote);
  [[nodiscard]] std::uint32_t whole_bytes_to(const SocketAddress& remote);
  void choose_device(UdpRemote& remote);
  void set_device(UdpRemote& remote, std::uint32_t device);
  void expect_own_device();
  // Learns the device's present name and index.
  void follow_device();
  // Resumes work at that address.
  void return_at(const SocketAddress& address);
  [[nodiscard]] bool rebind(const SocketAddress& address);
  // Completes packets whose bytes the kernel has, or which are lost.
  void complete(std::span<const proto::TxPacket> packets);

  proto::PacketPool& pool_;
  std::string name_;
  SocketAddress local_;
  UdpDevice device_;
  UdpHome home_;
  bool here_ = true;                // the device has the address
  bool bound_ = true;               // the sockets have the address
  bool fell_ = false;               // a `down` event is due
  bool told_here_ = true;           // an `up` event was sent
  bool have_ways_changed_ = false;  // a `ways` event is due
  std::uint32_t max_datagram_bytes_;
  RemoteTable remotes_;
  std::vector<UdpRemote> addresses_;  // by handle
  std::uint32_t named_ = 0;           // open remotes with a device to name
  Port data_;
  Port control_;
  std::optional<UdpRoutes> routes_;  // of a NIC with a device
  UdpWays ways_;
  proto::NicAddress address_;
  proto::NicCaps caps_;
  UdpLook* look_ = nullptr;
  bool screens_;
  std::optional<proto::Screen> screen_;
  std::uint64_t screened_before_ = 0;  // at earlier addresses
  proto::Ring<std::uint64_t> cookies_;
};

}  // namespace hawser::engine
