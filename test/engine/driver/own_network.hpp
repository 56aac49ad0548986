// SPDX-License-Identifier: Apache-2.0
// UDP NICs in a network namespace of their own, where a test can change addresses, routes and
// devices. Each case runs in a child process. It needs the privilege to make a namespace; without
// that privilege the case says so.
#pragma once

#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "engine/driver/udp/udp_nic.hpp"
#include "test/engine/driver/nic_user.hpp"

namespace hawser::test {

enum class InNamespace : int { ok = 0, not_permitted = 77, failed = 1 };

inline void configure_lo(int mtu, bool up) {
  const int fd = ::socket(AF_INET, SOCK_DGRAM, 0);
  ifreq request{};
  std::strncpy(request.ifr_name, "lo", IFNAMSIZ - 1);
  request.ifr_mtu = mtu;
  if (::ioctl(fd, SIOCSIFMTU, &request) != 0) ::_exit(static_cast<int>(InNamespace::failed));
  (void)::ioctl(fd, SIOCGIFFLAGS, &request);
  request.ifr_flags =
      static_cast<short>(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
  if (::ioctl(fd, SIOCSIFFLAGS, &request) != 0) ::_exit(static_cast<int>(InNamespace::failed));
  ::close(fd);
}

// Runs `ip` of iproute2 in the child's namespace.
inline bool ip(const std::string& words) { return std::system(("ip " + words).c_str()) == 0; }

// Makes a device with no host at its other end.
inline bool make_device(const std::string& name, const std::string& address) {
  return ip("link add " + name + " type veth peer name p" + name) &&
         ip("link set p" + name + " up") && ip("link set " + name + " up") &&
         ip("addr add " + address + " dev " + name +
            (address.find(':') == std::string::npos ? "" : " nodad"));
}

// Runs `body` in a child with lo up. `body` returns the error it finds, or null.
template <class Body>
void in_namespace(Body body) {
  int text[2];
  REQUIRE(::pipe(text) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    if (::unshare(CLONE_NEWNET) != 0) ::_exit(static_cast<int>(InNamespace::not_permitted));
    configure_lo(65536, true);
    const char* const wrong = body();
    if (wrong == nullptr) ::_exit(static_cast<int>(InNamespace::ok));
    (void)!::write(text[1], wrong, std::strlen(wrong));
    ::_exit(static_cast<int>(InNamespace::failed));
  }
  ::close(text[1]);
  char message[200] = {};
  (void)!::read(text[0], message, sizeof message - 1);
  ::close(text[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == static_cast<int>(InNamespace::not_permitted)) {
    WARN("no permission to make a network namespace: not tested");
    return;
  }
  INFO(message);
  CHECK(WEXITSTATUS(status) == static_cast<int>(InNamespace::ok));
}

// Two NICs in the namespace, and datagrams between them. The child can't use Catch2.
struct Wire {
  explicit Wire(const engine::UdpNicConfig& config) : Wire(config, config) {}
  Wire(const engine::UdpNicConfig& one, const engine::UdpNicConfig& other)
      : pool(128), a(one, pool), b(other, pool) {
    (void)a.open_remote(b.address(), to);
  }
  // Sends a burst; returns how many the NIC took. `arrived` counts those the other NIC got intact.
  std::size_t send(std::size_t count, std::uint32_t payload_bytes) {
    std::array<PacketBuffer*, 64> buffers;
    std::array<TxPacket, 64> packets;
    (void)pool.take(std::span(buffers).first(count));
    for (std::size_t i = 0; i < count; ++i) {
      fill({buffers[i]->bytes, 32}, i);
      packets[i] = {.buffer = buffers[i],
                    .header_bytes = 32,
                    .payload_bytes = payload_bytes,
                    .payload = payload.data(),
                    .remote = to,
                    .cookie = i};
    }
    const std::size_t taken = a.tx_burst(std::span(packets).first(count));
    pool.give(std::span(buffers).first(count).subspan(taken));
    std::array<std::uint64_t, 64> cookies;
    reaped += a.reap(cookies);
    std::array<RxPacket, 64> views;
    while (const std::size_t got = b.rx_burst(Queue::data, views)) {
      for (std::size_t i = 0; i < got; ++i) arrived += views[i].bytes == 32 + payload_bytes;
    }
    return taken;
  }
  // Whether a burst goes as one message before `limit` packets are sent.
  bool goes_segmented_within(std::uint32_t payload_bytes, std::size_t limit) {
    for (std::size_t sent = 0; sent < limit; sent += 15) {
      const auto messages = a.stats(Queue::data).send.messages;
      if (send(15, payload_bytes) != 15) return false;
      if (a.stats(Queue::data).send.messages == messages + 1) return true;
    }
    return false;
  }
  SimplePool pool;
  engine::UdpNic a;
  engine::UdpNic b;
  RemoteHandle to{};
  std::vector<std::byte> payload = std::vector<std::byte>(60'000);
  std::size_t arrived = 0;
  std::size_t reaped = 0;
};

}  // namespace hawser::test
