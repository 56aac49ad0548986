// The UDP NIC when the path changes under it: each case in a child process with a network namespace
// of its own, where lo can be reconfigured. Needs the privilege to make one; without it the cases
// say so.
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "engine/driver/udp_nic.hpp"
#include "hawser/engine.hpp"
#include "test/engine/driver/nic_user.hpp"

namespace hawser::test {
namespace {

using engine::UdpNic;
using engine::UdpNicConfig;

enum class Result : int { ok = 0, not_permitted = 77, failed = 1 };

void configure_lo(int mtu, bool up) {
  const int fd = ::socket(AF_INET, SOCK_DGRAM, 0);
  ifreq request{};
  std::strncpy(request.ifr_name, "lo", IFNAMSIZ - 1);
  request.ifr_mtu = mtu;
  if (::ioctl(fd, SIOCSIFMTU, &request) != 0) ::_exit(static_cast<int>(Result::failed));
  (void)::ioctl(fd, SIOCGIFFLAGS, &request);
  request.ifr_flags =
      static_cast<short>(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
  if (::ioctl(fd, SIOCSIFFLAGS, &request) != 0) ::_exit(static_cast<int>(Result::failed));
  ::close(fd);
}

// Runs `body` in a child with lo up; it returns what is wrong, or null.
template <class Body>
void in_namespace(Body body) {
  int text[2];
  REQUIRE(::pipe(text) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    if (::unshare(CLONE_NEWNET) != 0) ::_exit(static_cast<int>(Result::not_permitted));
    configure_lo(65536, true);
    const char* const wrong = body();
    if (wrong == nullptr) ::_exit(static_cast<int>(Result::ok));
    (void)!::write(text[1], wrong, std::strlen(wrong));
    ::_exit(static_cast<int>(Result::failed));
  }
  ::close(text[1]);
  char message[200] = {};
  (void)!::read(text[0], message, sizeof message - 1);
  ::close(text[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == static_cast<int>(Result::not_permitted)) {
    WARN("no permission to make a network namespace: not tested");
    return;
  }
  INFO(message);
  CHECK(WEXITSTATUS(status) == static_cast<int>(Result::ok));
}

// Two NICs in the namespace, and datagrams between them; no Catch2 in the child.
struct Wire {
  explicit Wire(UdpNicConfig config) : pool(128), a(config, pool), b(config, pool) {
    (void)a.open_remote(b.address(), to);
  }
  // How many of the burst the NIC took; `arrived` is what the other one received, whole.
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
  SimplePool pool;
  UdpNic a;
  UdpNic b;
  RemoteHandle to{};
  std::vector<std::byte> payload = std::vector<std::byte>(60'000);
  std::size_t arrived = 0;
  std::size_t reaped = 0;
};

UdpNicConfig at(const char* address) { return {.address = address}; }

}  // namespace

TEST_CASE("UDP NIC: it takes its longest datagram from the interface that has the address") {
  in_namespace([]() -> const char* {
    configure_lo(9000, true);
    SimplePool pool(4);
    if (UdpNic(at("127.0.0.1"), pool).caps().max_datagram_bytes != 9000 - 28) return "IPv4";
    if (UdpNic(at("127.8.7.6"), pool).caps().max_datagram_bytes != 9000 - 28) return "its network";
    if (UdpNic(at("::1"), pool).caps().max_datagram_bytes != 9000 - 48) return "IPv6";
    if (UdpNic(at("127.0.0.1"), pool).caps().burst != 60) return "burst";
    configure_lo(600, true);
    try {
      const UdpNic nic(at("127.0.0.1"), pool);
    } catch (const Error& error) {
      return std::strstr(error.what(), "MTU of 600") != nullptr ? nullptr : "words";
    }
    return "too small an MTU was taken";
  });
}

TEST_CASE("UDP NIC: where segments become too long for the path, datagrams go one by one") {
  in_namespace([]() -> const char* {
    Wire wire(at("127.0.0.1"));
    if (wire.send(15, 4000) != 15 || wire.arrived != 15) return "before";
    configure_lo(1500, true);  // as when a path's MTU is discovered to be less
    if (wire.send(15, 4000) != 15) return "taken";
    if (wire.arrived != 30) return "arrived (in IP fragments)";
    if (wire.reaped != 30) return "reaped";
    if (wire.a.stats(Queue::data).send.unsegmented != 1) return "not noticed";
    const auto calls = wire.a.stats(Queue::data).send.calls;
    if (wire.send(15, 4000) != 15 || wire.arrived != 45) return "after";
    if (wire.a.stats(Queue::data).send.calls != calls + 1) return "not remembered";
    return wire.pool.in_use() == 0 ? nullptr : "leak";
  });
}

TEST_CASE("UDP NIC: with the interface down packets are lost and reaped, and it recovers") {
  in_namespace([]() -> const char* {
    Wire wire(at("127.0.0.1"));
    if (wire.send(5, 100) != 5 || wire.arrived != 5) return "before";
    configure_lo(65536, false);
    if (wire.send(10, 100) != 10) return "not taken";
    if (wire.arrived != 5) return "arrived";
    if (wire.reaped != 15) return "not reaped";
    configure_lo(65536, true);
    if (wire.send(5, 100) != 5 || wire.arrived != 10) return "after";
    return wire.pool.in_use() == 0 ? nullptr : "leak";
  });
}

TEST_CASE("UDP NIC: a remote without a route is loss, counted, and others are served") {
  in_namespace([]() -> const char* {
    Wire wire(at("127.0.0.1"));
    using Layout = engine::UdpAddressLayout;
    proto::NicAddress nowhere = wire.b.address();
    const int ip[] = {203, 0, 113, 1};
    for (std::size_t i = 0; i < 4; ++i) {
      nowhere.bytes[Layout::kIp + i] = static_cast<std::byte>(ip[i]);
    }
    RemoteHandle lost{};
    if (wire.a.open_remote(nowhere, lost) != Status::ok) return "open";
    std::array<PacketBuffer*, 9> buffers;
    std::array<TxPacket, 9> packets;
    (void)wire.pool.take(buffers);
    for (std::size_t i = 0; i < packets.size(); ++i) {
      packets[i] = {.buffer = buffers[i],
                    .header_bytes = 32,
                    .remote = i / 3 % 2 == 0 ? wire.to : lost,
                    .cookie = i};
    }
    if (wire.a.tx_burst(packets) != packets.size()) return "not taken";
    std::array<std::uint64_t, 16> cookies;
    if (wire.a.reap(cookies) != packets.size()) return "not reaped";
    std::array<RxPacket, 16> views;
    if (wire.b.rx_burst(Queue::data, views) != 6) return "arrived";
    const engine::UdpSendStats stats = wire.a.stats(Queue::data).send;
    if (stats.lost != 3 || stats.datagrams != 6) return "not counted";
    if (stats.last_error == 0) return "no reason";
    return wire.pool.in_use() == 0 ? nullptr : "leak";
  });
}

TEST_CASE("UDP NIC: with every port taken it says so in a sentence") {
  in_namespace([]() -> const char* {
    FILE* const range = std::fopen("/proc/sys/net/ipv4/ip_local_port_range", "w");
    if (range == nullptr) return "no /proc";
    std::fputs("40000 40003", range);
    std::fclose(range);
    SimplePool pool(4);
    const UdpNic first(at("127.0.0.1"), pool);
    const UdpNic second(at("127.0.0.1"), pool);
    const UdpNic elsewhere(at("127.0.0.2"), pool);  // ports are per address
    try {
      const UdpNic third(at("127.0.0.1"), pool);
    } catch (const Error& error) {
      return std::strstr(error.what(), "no UDP port is free") != nullptr ? nullptr : error.what();
    }
    return "a third was made";
  });
}

}  // namespace hawser::test
