// SPDX-License-Identifier: Apache-2.0
// The UDP NIC and the host's routes: by which device its packets leave.
#include "engine/driver/udp/udp_route.hpp"

#include <fstream>

#include "engine/driver/udp/udp_look.hpp"
#include "proto/wire/layout.hpp"
#include "test/engine/driver/socket_calls.hpp"
#include "test/engine/driver/two_cables.hpp"

namespace hawser::test {
namespace {

using engine::UdpNic;
using engine::UdpNicConfig;

UdpNicConfig at(const std::string& address) { return {.address = address}; }

// A NIC and what tells it of changes of the host, in turns that are a tenth of a second apart.
struct Followed {
  explicit Followed(const std::string& address) : nic(at(address), pool) { look.add(nic); }
  void turn() {
    now = now + proto::milliseconds(100);
    look.begin_turn(now, now);
  }
  // Whether 20 packets go by this device alone.
  [[nodiscard]] bool sends_by(const std::string& device, RemoteHandle to) {
    const std::string other = device == "e0" ? "e1" : "e0";
    const std::uint64_t before = bytes_sent_by(device);
    const std::uint64_t before_other = bytes_sent_by(other);
    send_to(pool, nic, to, 20);
    return bytes_sent_by(device) - before >= 20'000 && bytes_sent_by(other) - before_other < 2'000;
  }

  SimplePool pool{64};
  UdpNic nic;
  engine::UdpLook look;
  proto::Time now{1'000'000'000};
};

}  // namespace

TEST_CASE("UDP NIC: of two devices in one subnet each NIC's packets leave by its own") {
  in_namespace([]() -> const char* {
    TwoCables cables;
    if (!cables.lay()) return "no cables";
    SimplePool pool(64);
    for (const std::string net : {"10.7.0.", "fd07::"}) {
      UdpNic zero(at(net + "1"), pool);
      UdpNic one(at(net + "3"), pool);
      for (const char* const to : {"2", "4"}) {
        std::uint64_t before0 = bytes_sent_by("e0");
        std::uint64_t before1 = bytes_sent_by("e1");
        send_to(pool, zero, net + to, 20);
        if (bytes_sent_by("e0") - before0 < 20'000) return "NIC 0 does not send by e0";
        if (bytes_sent_by("e1") - before1 > 2'000) return "NIC 0 sends by e1";
        before0 = bytes_sent_by("e0");
        before1 = bytes_sent_by("e1");
        send_to(pool, one, net + to, 20);
        if (bytes_sent_by("e1") - before1 < 20'000) return "NIC 1 does not send by e1";
        if (bytes_sent_by("e0") - before0 > 2'000) return "NIC 1 sends by e0";
      }
    }
    return nullptr;
  });
}

TEST_CASE("UDP NIC: a more specific route stays in force") {
  in_namespace([]() -> const char* {
    TwoCables cables;
    if (!cables.lay()) return "no cables";
    if (!ip("route add 10.7.0.4/32 dev e0") || !ip("-6 route add fd07::4/128 dev e0")) return "ip";
    SimplePool pool(64);
    for (const std::string net : {"10.7.0.", "fd07::"}) {
      UdpNic one(at(net + "3"), pool);
      const std::uint64_t before = bytes_sent_by("e0");
      send_to(pool, one, net + "4", 20);
      if (bytes_sent_by("e0") - before < 20'000) return "the route to one host is not followed";
    }
    return nullptr;
  });
}

TEST_CASE("UDP NIC: the MTU is that of the device by which it sends") {
  in_namespace([]() -> const char* {
    TwoCables cables;
    if (!cables.lay()) return "no cables";
    SimplePool pool(64);
    UdpNic one(at("10.7.0.3"), pool);
    if (!ip("route change 10.7.0.0/24 dev e1 proto kernel scope link src 10.7.0.3 mtu 1300")) {
      return "ip";
    }
    engine::SocketAddress to = engine::parse_local_address("10.7.0.4");
    to.set_port(htons(4000));
    if (one.max_datagram_to(engine::to_nic_address(to, to)) != 1300 - 28) return "MTU";
    return nullptr;
  });
}

TEST_CASE("UDP NIC: the MTU is that of its device under another name") {
  in_namespace([]() -> const char* {
    TwoCables cables;
    if (!cables.lay()) return "no cables";
    SimplePool pool(64);
    UdpNic one(at("10.7.0.3"), pool);
    if (!ip("link set e1 down") || !ip("link set e1 name rail1") || !ip("link set rail1 up") ||
        !ip("route del 10.7.0.0/24 dev rail1") ||
        !ip("route append 10.7.0.0/24 dev rail1 scope link src 10.7.0.3 mtu 1300")) {
      return "ip";
    }
    engine::SocketAddress to = engine::parse_local_address("10.7.0.4");
    to.set_port(htons(4000));
    if (one.max_datagram_to(engine::to_nic_address(to, to)) != 1300 - 28) return "MTU";
    return nullptr;
  });
}

TEST_CASE("UDP NIC: what comes by another device is taken, and counted") {
  in_namespace([]() -> const char* {
    TwoCables cables;
    if (!cables.lay()) return "no cables";
    SimplePool pool(64);
    UdpNic one(at("10.7.0.3"), pool);
    send_to(pool, one, "10.7.0.4", 1);
    const in_port_t port = data_port_of(one);
    std::array<RxPacket, 8> packets;
    if (!cables.tell("10.7.0.3", port, 1) || one.rx_burst(Queue::data, packets) != 1)
      return "by its own";
    if (one.detours().by_other_devices != 0) return "counted";
    if (!cables.tell("10.7.0.3", port, 0) || one.rx_burst(Queue::data, packets) != 1)
      return "by the other";
    if (one.detours().by_other_devices != 1) return "not counted";
    return nullptr;
  });
}

// When a device comes up, its route comes behind those of the others.
TEST_CASE("UDP NIC: a device that was down keeps the packets to remotes that are open") {
  in_namespace([]() -> const char* {
    TwoCables cables;
    if (!cables.lay()) return "no cables";
    Followed zero("10.7.0.1");
    const RemoteHandle to = open_at(zero.nic, "10.7.0.4");
    zero.turn();
    if (!zero.sends_by("e0", to)) return "before";
    if (!ip("link set e0 down") || !ip("link set e0 up") || !cables.enter_neighbours("e0")) {
      return "ip";
    }
    zero.turn();
    if (!events_of(zero.nic).empty()) return "an event for nothing";
    if (!zero.sends_by("e0", to)) return "its packets go by the other device";
    // A remote that is opened while the device is down.
    if (!ip("link set e0 down")) return "ip";
    zero.turn();
    const RemoteHandle other = open_at(zero.nic, "10.7.0.2");
    send_to(zero.pool, zero.nic, other, 1);
    if (!ip("link set e0 up") || !cables.enter_neighbours("e0")) return "ip";
    zero.turn();
    if (!zero.sends_by("e0", other)) return "the remote opened meanwhile stays unnamed";
    return zero.sends_by("e0", to) ? nullptr : "the first remote";
  });
}

TEST_CASE("UDP NIC: once no route needs its device named, packets may come by any") {
  in_namespace([]() -> const char* {
    TwoCables cables;
    if (!cables.lay()) return "no cables";
    Followed one("10.7.0.3");
    const RemoteHandle to = open_at(one.nic, "10.7.0.4");
    if (!one.sends_by("e1", to)) return "before";
    std::array<RxPacket, 8> packets;
    const in_port_t port = data_port_of(one.nic);
    if (!cables.tell("10.7.0.3", port, 0)) return "the other host";
    if (one.nic.rx_burst(Queue::data, packets) != 1) return "nothing came";
    if (one.nic.detours().by_other_devices != 1) return "not counted";
    // A tunnel takes over, say.
    if (!ip("route add 10.7.0.4/32 dev e0")) return "ip";
    one.turn();
    if (!one.sends_by("e0", to)) return "the new route is not followed";
    if (!cables.tell("10.7.0.3", port, 0)) return "the other host again";
    if (one.nic.rx_burst(Queue::data, packets) != 1) return "nothing came again";
    return one.nic.detours().by_other_devices == 1 ? nullptr : "counted as a detour";
  });
}

TEST_CASE("UDP NIC: of a route with several next hops each NIC takes its own device") {
  in_namespace([]() -> const char* {
    TwoCables cables;
    if (!cables.lay()) return "no cables";
    if (!ip("route add 10.50.0.0/24 nexthop dev e0 nexthop dev e1") ||
        !ip("-6 route add fd50::/64 nexthop via fd07::2 dev e0 nexthop via fd07::4 dev e1")) {
      return "ip";
    }
    Followed zero("10.7.0.1");
    Followed one("10.7.0.3");
    Followed six("fd07::3");
    const std::uint64_t before = bytes_sent_by("e0") + bytes_sent_by("e1");
    for (const std::string i : {"2", "3", "4", "5", "6", "7"}) {
      for (const char* const device : {"e0", "e1"}) {
        if (!ip("neigh replace 10.50.0." + i + " lladdr 02:00:00:00:00:02 dev " + device)) {
          return "neigh";
        }
      }
      if (!zero.sends_by("e0", open_at(zero.nic, "10.50.0." + i))) return "NIC 0";
      if (!one.sends_by("e1", open_at(one.nic, "10.50.0." + i))) return "NIC 1";
      // Linux spreads IPv6 packets over both devices all the same.
      send_to(six.pool, six.nic, "fd50::" + i, 20);
    }
    const std::uint64_t sent = bytes_sent_by("e0") + bytes_sent_by("e1") - before;
    return sent > std::uint64_t{3 * 6 * 20'000} ? nullptr : "IPv6 packets are lost";
  });
}

// Routing daemons make routes to groups of next hops, and may have the kernel name the group alone.
TEST_CASE("UDP NIC: next hops that the kernel does not list are asked for") {
  in_namespace([]() -> const char* {
    TwoCables cables;
    if (!cables.lay()) return "no cables";
    for (const char* const words :
         {"nexthop add id 1 via 10.7.0.2 dev e0", "nexthop add id 2 via 10.7.0.4 dev e1",
          "nexthop add id 3 group 1/2", "route add 10.51.0.0/24 nhid 3"}) {
      if (!ip(words)) return "ip";
    }
    std::ofstream("/proc/sys/net/ipv4/nexthop_compat_mode") << "0";
    Followed zero("10.7.0.1");
    Followed one("10.7.0.3");
    for (const std::string i : {"2", "3", "4", "5", "6", "7"}) {
      if (!zero.sends_by("e0", open_at(zero.nic, "10.51.0." + i))) return "NIC 0";
      if (!one.sends_by("e1", open_at(one.nic, "10.51.0." + i))) return "NIC 1";
    }
    return nullptr;
  });
}

// Anybody can make an endpoint answer, as often as packets come.
TEST_CASE("UDP NIC: an answer to a stranger costs no question to the kernel") {
  in_namespace([]() -> const char* {
    TwoCables cables;
    if (!cables.lay()) return "no cables";
    Followed one("10.7.0.3");
    using proto::wire::PacketType;
    const std::uint64_t sockets = sockets_asked_for;
    const std::uint64_t questions = questions_sent;
    for (const PacketType type : {PacketType::challenge, PacketType::reset}) {
      const RemoteHandle stranger = open_at(one.nic, "10.7.0.4");
      send_to(one.pool, one.nic, stranger, 1, static_cast<std::uint8_t>(type));
      one.nic.close_remote(stranger);
    }
    if (sockets_asked_for != sockets || questions_sent != questions) return "it asks";
    if (one.nic.stats(Queue::data).send.datagrams != 2) return "not sent";
    // With the first other packet the remote is one that is kept.
    const RemoteHandle kept = open_at(one.nic, "10.7.0.4");
    send_to(one.pool, one.nic, kept, 1, static_cast<std::uint8_t>(PacketType::challenge));
    if (!one.sends_by("e1", kept)) return "its device is not named";
    const std::uint64_t by_then = questions_sent;
    if (by_then == questions) return "not asked";
    if (!one.sends_by("e1", kept)) return "nor later";
    return questions_sent == by_then ? nullptr : "asked twice";
  });
}

TEST_CASE("UDP NIC: it asks for routes when the process has no descriptor left") {
  in_namespace([]() -> const char* {
    TwoCables cables;
    if (!cables.lay()) return "no cables";
    Followed one("10.7.0.3");
    out_of_descriptors = true;
    return one.sends_by("e1", open_at(one.nic, "10.7.0.4")) ? nullptr : "its device is not named";
  });
}

}  // namespace hawser::test
