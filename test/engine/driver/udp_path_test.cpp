// SPDX-License-Identifier: Apache-2.0
// The UDP NIC when the path MTU or the route changes while it sends.
#include <cstdio>

#include "hawser/engine.hpp"
#include "test/engine/driver/own_network.hpp"
#include "test/engine/driver/socket_calls.hpp"

namespace hawser::test {
namespace {

using engine::UdpNic;
using engine::UdpNicConfig;
using engine::UdpWayNews;

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
    configure_lo(1500, true);  // as when path MTU discovery finds a smaller MTU
    if (wire.send(15, 4000) != 15) return "taken";
    if (wire.arrived != 30) return "arrived (in IP fragments)";
    if (wire.reaped != 30) return "reaped";
    if (wire.a.stats(Queue::data).send.unsegmented != 1) return "not noticed";
    if (wire.a.detours().fragmented != 15) return "fragments not counted";
    std::array<proto::NicEvent, 2> events;
    if (wire.a.events(events) != 1 || events[0].kind != proto::NicEvent::Kind::ways) return "told";
    if (wire.a.events(events) != 0) return "told again";
    const auto calls = wire.a.stats(Queue::data).send.calls;
    if (wire.send(15, 4000) != 15 || wire.arrived != 45) return "after";
    if (wire.a.stats(Queue::data).send.calls != calls + 1) return "not remembered";
    const auto messages = wire.a.stats(Queue::data).send.messages;
    if (wire.send(15, 1200) != 15) return "shorter ones";
    if (wire.a.stats(Queue::data).send.messages != messages + 1)
      return "what fits is not segmented";
    return wire.pool.in_use() == 0 ? nullptr : "leak";
  });
}

TEST_CASE("UDP NIC: what was refused is tried again, and told") {
  in_namespace([]() -> const char* {
    Wire wire(at("127.0.0.1"));
    configure_lo(1500, true);
    if (wire.send(15, 4000) != 15) return "taken";
    auto news = wire.a.take_news();
    if (!news || news->kind != UdpWayNews::Kind::fragmented) return "no news of it";
    if (news->bytes != 4032 || news->whole_bytes != 1472) return "figures of the news";
    constexpr std::size_t kFirst = engine::UdpRemote::kFirstPatience;
    if (wire.goes_segmented_within(4000, kFirst / 2)) return "segmented where it can't be";
    configure_lo(65536, true);
    if (!wire.goes_segmented_within(4000, 2 * kFirst)) return "not tried again";
    const proto::NicDetours detours = wire.a.detours();
    if (detours.segmentation_refused != 1 || detours.segmentation_resumed != 1) return "counted";
    news = wire.a.take_news();
    if (!news || news->kind != UdpWayNews::Kind::resumed) return "no news of the end";
    if (wire.a.take_news()) return "news twice";
    const auto cut = detours.fragmented;
    if (wire.send(15, 4000) != 15 || wire.a.detours().fragmented != cut) return "still cut";
    return wire.pool.in_use() == 0 ? nullptr : "leak";
  });
}

TEST_CASE("UDP NIC: while segments stay refused, trials become rare") {
  in_namespace([]() -> const char* {
    Wire wire(at("127.0.0.1"));
    configure_lo(1500, true);
    for (int i = 0; i < 2000; ++i) {
      if (wire.send(50, 2000) != 50) return "taken";
    }
    if (wire.arrived != 100'000) return "arrived";
    const auto& send = wire.a.stats(Queue::data).send;
    if (send.unsegmented != 1 || send.resumed != 0) return "one refusal was counted anew";
    if (send.fragmented != 100'000) return "fragments not counted";
    return wire.pool.in_use() == 0 ? nullptr : "leak";
  });
}

// A device without checksums refuses segments that would fit. Here the sender believes they do fit.
TEST_CASE("UDP sender: segments that are refused for another reason are tried again") {
  in_namespace([]() -> const char* {
    configure_lo(1500, true);
    SimplePool pool(64);
    UdpNic to(at("127.0.0.2"), pool);
    const engine::SocketAddress local = engine::parse_local_address("127.0.0.1");
    const engine::UdpSocket socket(local, 1 << 20, "udp");
    engine::RemoteTable table(1);
    std::vector<engine::UdpRemote> remotes(1);
    const RemoteHandle handle = table.open(to.address()).handle;
    if (!engine::from_nic_address(to.address(), local, remotes[0].data, remotes[0].control)) {
      return "address";
    }
    engine::UdpSender sender(socket.fd(), local, Queue::data, {true, 65507, 65507},
                             {[](const engine::SocketAddress&) { return 65507u; }, {}}, table,
                             remotes);
    std::array<PacketBuffer*, 15> buffers;
    std::array<TxPacket, 15> packets;
    (void)pool.take(buffers);
    std::vector<std::byte> payload(4000);
    for (std::size_t i = 0; i < packets.size(); ++i) {
      packets[i] = {.buffer = buffers[i],
                    .header_bytes = 32,
                    .payload_bytes = 4000,
                    .payload = payload.data(),
                    .remote = handle};
    }
    std::uint64_t bursts = 0;
    std::array<RxPacket, 64> views;
    const auto send = [&] {
      ++bursts;
      const bool all = sender.send(packets) == packets.size();
      while (to.rx_burst(Queue::data, views) > 0) {
      }
      return all;
    };
    if (!send() || sender.stats().datagrams != 15) return "lost";
    if (sender.stats().unsegmented != 1) return "not noticed";
    const auto news = sender.take_news();
    if (!news || news->kind != UdpWayNews::Kind::unsegmented) return "no news";
    // Each trial costs one call more than a burst, and the gaps between trials double.
    while (sender.stats().datagrams < 10'000) {
      if (!send()) return "not taken";
    }
    if (sender.stats().unsegmented != 1) return "counted anew";
    const std::uint64_t trials = sender.stats().calls - bursts;
    if (trials < 4 || trials > 8) return "trials";
    configure_lo(65536, true);
    while (sender.stats().resumed == 0) {
      if (sender.stats().datagrams > 30'000) return "not resumed";
      if (!send()) return "not taken";
    }
    pool.give(buffers);
    return nullptr;
  });
}

TEST_CASE("UDP NIC: a route's MTU is that of the way, whatever the device has") {
  in_namespace([]() -> const char* {
    if (!ip("-V >/dev/null 2>&1")) return nullptr;
    Wire wire(at("127.0.0.1"));
    SimplePool pool(4);
    UdpNic other(at("127.0.0.3"), pool);
    proto::NicAddress there = wire.b.address();
    there.bytes[engine::UdpAddressLayout::kIp + 3] = std::byte{2};
    if (wire.a.max_datagram_to(there) != 65507) return "before";
    if (!ip("route replace local 127.0.0.2/32 dev lo mtu 1400 table local")) return "ip";
    if (wire.a.max_datagram_to(there) != 1400 - 28) return "the route";
    if (wire.a.max_datagram_to(other.address()) != 65507) return "another remote";
    if (!ip("route replace local 127.0.0.2/32 dev lo mtu 900 table local")) return "ip";
    if (wire.a.max_datagram_to(there) != 900 - 28) return "a change";
    if (!ip("route del local 127.0.0.2/32 dev lo table local")) return "ip";
    if (wire.a.max_datagram_to(there) != 65507) return "without the route";
    for (const char* const words :
         {"link add d0 type veth peer name d1", "link set d1 up", "link set d0 up",
          "addr add fd09::1/64 dev d0 nodad", "-6 route replace fd09::5/128 dev d0 mtu 1400"}) {
      if (!ip(words)) return "ip -6";
    }
    UdpNic six(at("fd09::1"), pool);
    engine::SocketAddress five = engine::parse_local_address("fd09::5");
    five.set_port(htons(4000));
    if (six.max_datagram_to(engine::to_nic_address(five, five)) != 1400 - 48) return "IPv6";
    if (six.max_datagram_to(there) != 1500 - 48) return "what it can't address";
    configure_lo(65536, false);
    if (wire.a.max_datagram_to(there) != 65507) return "no way: what it could carry";
    return nullptr;
  });
}

// A session keeps the size that it begins with.
TEST_CASE("UDP NIC: the MTU of a way is known when the process has no descriptor left") {
  in_namespace([]() -> const char* {
    if (!ip("-V >/dev/null 2>&1")) return nullptr;
    Wire wire(at("127.0.0.1"));
    proto::NicAddress there = wire.b.address();
    there.bytes[engine::UdpAddressLayout::kIp + 3] = std::byte{2};
    if (!ip("route replace local 127.0.0.2/32 dev lo mtu 1400 table local")) return "ip";
    out_of_descriptors = true;
    for (int i = 0; i < 3; ++i) {
      if (wire.a.max_datagram_to(there) != 1400 - 28) return "IPv4";
      if (wire.a.max_datagram_to(wire.b.address()) != 65507) return "another remote";
    }
    out_of_descriptors = false;
    if (!make_device("d0", "fd09::1/64") || !ip("-6 route replace fd09::5/128 dev d0 mtu 1400")) {
      return "ip -6";
    }
    UdpNic six(at("fd09::1"), wire.pool);
    engine::SocketAddress five = engine::parse_local_address("fd09::5");
    five.set_port(htons(4000));
    out_of_descriptors = true;
    for (int i = 0; i < 3; ++i) {
      if (six.max_datagram_to(engine::to_nic_address(five, five)) != 1400 - 48) return "IPv6";
    }
    return nullptr;
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
