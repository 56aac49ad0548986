// SPDX-License-Identifier: Apache-2.0
// The UDP NIC and its network device: what happens when the device gets another address or name.
#include <fstream>

#include "engine/driver/udp/udp_device.hpp"
#include "engine/driver/udp/udp_look.hpp"
#include "test/engine/driver/two_cables.hpp"

namespace hawser::test {
namespace {

using engine::UdpNic;
using engine::UdpNicConfig;

UdpNicConfig at(const std::string& address) { return {.address = address}; }

// Makes devices d0 and d1, each in a subnet of its own.
bool make_devices(const char* first, const char* second) {
  return make_device("d0", first) && make_device("d1", second);
}

}  // namespace

TEST_CASE("UDP NIC: when its device gets another address it returns with that one") {
  in_namespace([]() -> const char* {
    if (!make_devices("10.9.0.1/24", "10.8.0.1/24")) return "no devices";
    Wire wire(at("10.9.0.1"), at("10.8.0.1"));
    wire.a.screen({0xffffffff, 7});
    if (wire.send(5, 100) != 5 || wire.arrived != 5) return "before";
    wire.a.look_at_address();
    if (!events_of(wire.a).empty()) return "an event for nothing";
    if (!ip("addr del 10.9.0.1/24 dev d0")) return "ip";
    wire.a.look_at_address();
    wire.a.look_at_address();
    if (events_of(wire.a) != "down " || !wire.a.is_lost()) return "no word that it is gone";
    if (wire.send(5, 100) != 5 || wire.arrived != 5 || wire.reaped != 10) return "not lost";
    std::array<int, 2> fds{};
    (void)wire.a.descriptors(fds);
    if (!ip("addr add 10.9.0.7/24 dev d0")) return "ip";
    const proto::NicAddress before = wire.a.address();
    wire.a.look_at_address();
    if (events_of(wire.a) != "up " || wire.a.is_lost()) return "not back";
    if (wire.a.address() == before) return "the address is the old one";
    std::array<int, 2> after{};
    (void)wire.a.descriptors(after);
    if (fds != after) return "other descriptors";
    if (wire.send(5, 100) != 5 || wire.arrived != 10) return "it does not send";
    RemoteHandle back{};
    if (wire.b.open_remote(wire.a.address(), back) != Status::ok) return "open";
    PacketBuffer* buffer = nullptr;
    (void)wire.pool.take(std::span(&buffer, 1));
    const std::array<std::byte, 32> hello{std::byte{1}, std::byte{1}};  // passes a screen
    std::memcpy(buffer->bytes, hello.data(), hello.size());
    const TxPacket packet{.buffer = buffer, .header_bytes = 32, .remote = back};
    if (wire.b.tx_burst(std::span(&packet, 1)) != 1) return "b";
    std::array<RxPacket, 4> packets;
    if (wire.a.rx_burst(Queue::data, packets) != 1) return "it does not receive";
    (void)wire.pool.take(std::span(&buffer, 1));
    std::memset(buffer->bytes, 0, 32);
    const TxPacket strange{.buffer = buffer, .header_bytes = 32, .remote = back};
    if (wire.b.tx_burst(std::span(&strange, 1)) != 1) return "b again";
    if (wire.a.rx_burst(Queue::data, packets) != 0) return "the screen is gone";
    return nullptr;
  });
}

// An address service that renews a lease may take the address away and give it back at once.
TEST_CASE("UDP NIC: it waits for its own address before it takes one that peers may not reach") {
  in_namespace([]() -> const char* {
    if (!make_devices("10.9.0.1/24", "10.8.0.1/24")) return "no devices";
    if (!ip("addr add 169.254.7.7/16 dev d0") || !ip("addr add 10.99.0.1/32 dev d0")) return "ip";
    SimplePool pool(4);
    UdpNic nic(at("10.9.0.1"), pool);
    engine::UdpLook look;
    look.add(nic);
    proto::Time now{1'000'000'000};
    const auto turn_after = [&](std::int64_t milliseconds) {
      now = now + proto::milliseconds(milliseconds);
      look.begin_turn(now, now);
      return events_of(nic);
    };
    const auto is_at = [&](const char* address) {
      engine::SocketAddress wanted = engine::parse_local_address(address);
      return std::memcmp(&wanted.v4.sin_addr, &nic.address().bytes[engine::UdpAddressLayout::kIp],
                         sizeof wanted.v4.sin_addr) == 0;
    };
    if (turn_after(2) != "" || !ip("addr del 10.9.0.1/24 dev d0")) return "ip";
    if (turn_after(2) != "down ") return "no word that it is gone";
    if (turn_after(200) != "" || !ip("addr add 10.9.0.1/24 dev d0")) return "another was taken";
    if (turn_after(2) != "up " || !is_at("10.9.0.1")) return "not back";
    // The address stays away. One of the same scope is better than none.
    if (!ip("addr del 10.9.0.1/24 dev d0") || turn_after(2) != "down ") return "again";
    if (turn_after(990) != "") return "too early";
    if (turn_after(20) != "up " || !is_at("10.99.0.1")) return "no substitute";
    if (!ip("addr del 10.99.0.1/32 dev d0") || turn_after(2) != "down ") return "a third time";
    if (turn_after(1010) != "up " || !is_at("169.254.7.7")) return "no substitute of any scope";
    // Closer ones are taken at once.
    if (!ip("addr add 10.99.0.2/32 dev d0") || turn_after(2) != "down up ") return "scope";
    if (!is_at("10.99.0.2")) return "which scope";
    if (!ip("addr add 10.9.0.5/24 dev d0") || turn_after(2) != "down up ") return "network";
    if (!is_at("10.9.0.5")) return "which network";
    if (!ip("addr add 10.9.0.1/24 dev d0") || turn_after(2) != "down up ") return "its own";
    if (!is_at("10.9.0.1")) return "which of its own";
    return turn_after(2) == "" ? nullptr : "it left its own";
  });
}

TEST_CASE("UDP NIC: how close addresses are") {
  using engine::Closeness;
  const auto closeness = [](const char* address, const char* home, std::uint32_t bits) {
    return engine::closeness_of(engine::parse_local_address(address),
                                {engine::parse_local_address(home), bits});
  };
  CHECK(closeness("10.0.0.5", "10.0.0.5", 24) == Closeness::same);
  CHECK(closeness("10.0.0.6", "10.0.0.5", 24) == Closeness::same_network);
  CHECK(closeness("10.0.1.6", "10.0.0.5", 24) == Closeness::same_scope);
  CHECK(closeness("10.0.1.6", "10.0.0.5", 23) == Closeness::same_network);
  CHECK(closeness("10.0.0.6", "10.0.0.5", 32) == Closeness::same_scope);
  CHECK(closeness("169.254.7.7", "10.0.0.5", 24) == Closeness::other_scope);
  CHECK(closeness("10.0.0.5", "169.254.7.7", 16) == Closeness::other_scope);
  CHECK(closeness("fd00:0:0:1::5", "fd00:0:0:1::6", 64) == Closeness::same_network);
  CHECK(closeness("fd00:0:0:2::5", "fd00:0:0:1::6", 64) == Closeness::same_scope);
  CHECK(closeness("2001:db8::5", "fd00::6", 64) == Closeness::other_scope);
  CHECK(closeness("fe80::5%lo", "fd00::6", 64) == Closeness::none);
  CHECK(closeness("fe80::5%lo", "fe80::6%lo", 64) == Closeness::same_network);
}

TEST_CASE("UDP NIC: an address that returns is taken up with the same sockets") {
  in_namespace([]() -> const char* {
    if (!make_devices("fd09::1/64", "fd08::1/64")) return "no devices";
    Wire wire(at("fd09::1"), at("fd08::1"));
    const proto::NicAddress before = wire.a.address();
    if (!ip("addr del fd09::1/64 dev d0")) return "ip";
    wire.a.look_at_address();
    if (!ip("addr add fd09::1/64 dev d0 nodad")) return "ip";
    wire.a.look_at_address();
    if (events_of(wire.a) != "down up ") return "events";
    if (!(wire.a.address() == before)) return "another address";
    if (wire.send(5, 100) != 5 || wire.arrived != 5) return "after";
    // The device is made anew, with another address.
    if (!ip("link del d0")) return "ip";
    wire.a.look_at_address();
    if (events_of(wire.a) != "down ") return "its device is gone";
    if (!make_device("d0", "fd09::2/64")) return "ip";
    wire.a.look_at_address();
    if (events_of(wire.a) != "up " || wire.a.address() == before) return "made anew";
    if (wire.send(5, 100) != 5 || wire.arrived != 10) return "at last";
    return nullptr;
  });
}

TEST_CASE("UDP NIC: a link-local address returns with a device that is made anew") {
  in_namespace([]() -> const char* {
    // The neighbour is entered beforehand, so no packet waits for a lookup.
    const auto make = [] {
      return ip("link add d0 type veth peer name pd0") && ip("link set d0 addrgenmode none") &&
             ip("link set pd0 up") && ip("link set d0 up") &&
             ip("addr add fe80::1/64 dev d0 nodad") &&
             ip("neigh replace fe80::2 lladdr 02:00:00:00:00:02 dev d0");
    };
    if (!make()) return "no device";
    SimplePool pool(64);
    UdpNic nic(at("fe80::1%d0"), pool);
    const RemoteHandle to = open_at(nic, "fe80::2%d0");
    std::uint64_t before = bytes_sent_by("d0");
    send_to(pool, nic, to, 20);
    if (bytes_sent_by("d0") - before < 20'000) return "before";
    if (!ip("link del d0")) return "ip";
    nic.look_at_address();
    if (events_of(nic) != "down " || !nic.is_lost()) return "no word that it is gone";
    // It gets another index, and with it the address another scope.
    if (!make()) return "no device the second time";
    nic.look_at_address();
    if (events_of(nic) != "up " || nic.is_lost()) return "not back";
    before = bytes_sent_by("d0");
    send_to(pool, nic, to, 20);
    if (bytes_sent_by("d0") - before < 20'000) return "it does not send to its old remote";
    send_to(pool, nic, "fe80::2%d0", 1);
    return nullptr;
  });
}

TEST_CASE("UDP NIC: a label of an address is not taken for its device's name") {
  in_namespace([]() -> const char* {
    if (!make_device("d0", "10.9.0.9/24") || !ip("addr del 10.9.0.9/24 dev d0")) return "no device";
    if (!ip("addr add 10.9.0.1/24 dev d0 label d0:1")) return "ip";
    SimplePool pool(4);
    UdpNic nic(at("10.9.0.1"), pool);
    if (engine::device_of(engine::parse_local_address("10.9.0.1")).name != "d0") return "name";
    if (!ip("addr del 10.9.0.1/24 dev d0") || !ip("addr add 10.9.0.7/24 dev d0")) return "ip";
    nic.look_at_address();
    if (events_of(nic) != "down up ") return "it does not return with an address of its device";
    if (!ip("addr del 10.9.0.7/24 dev d0")) return "ip";
    if (!ip("addr add 10.9.0.8/24 dev d0 label d0:2")) return "ip";
    nic.look_at_address();
    return events_of(nic) == "down up " ? nullptr : "nor with a labelled one";
  });
}

TEST_CASE("UDP NIC: another device's address is none for it") {
  in_namespace([]() -> const char* {
    if (!make_devices("10.9.0.1/24", "10.8.0.1/24")) return "no devices";
    Wire wire(at("10.9.0.1"), at("10.8.0.1"));
    if (!ip("addr del 10.9.0.1/24 dev d0") || !ip("addr add 10.9.0.7/24 dev d1")) return "ip";
    wire.a.look_at_address();
    return events_of(wire.a) == "down " ? nullptr : "it took the address of another device";
  });
}

TEST_CASE("UDP NIC: a device stays its own under another name") {
  in_namespace([]() -> const char* {
    if (!make_devices("10.9.0.1/24", "10.8.0.1/24")) return "no devices";
    SimplePool pool(4);
    UdpNic nic(at("10.9.0.1"), pool);
    if (!ip("link set d0 down") || !ip("link set d0 name lan0") || !ip("link set lan0 up")) {
      return "rename";
    }
    if (!make_device("d2", "10.9.0.8/24") || !ip("link set d2 down")) return "no third device";
    if (!ip("link set d2 name d0") || !ip("link set d0 up")) return "rename again";
    if (!ip("addr del 10.9.0.1/24 dev lan0")) return "ip";
    nic.look_at_address(UdpNic::Substitute::any);
    if (events_of(nic) != "down ") return "it took the address of a device with its old name";
    if (!ip("addr add 10.9.0.7/24 dev lan0")) return "ip";
    nic.look_at_address();
    return events_of(nic) == "up " ? nullptr : "it does not return with an address of its device";
  });
}

TEST_CASE("UDP NIC: it follows its address to another device") {
  in_namespace([]() -> const char* {
    if (!make_devices("10.9.0.1/24", "10.8.0.1/24")) return "no devices";
    SimplePool pool(4);
    UdpNic nic(at("10.9.0.1"), pool);
    // As a bridge takes over the address of its port.
    if (!ip("addr add 10.9.0.1/24 dev d1") || !ip("addr del 10.9.0.1/24 dev d0")) return "ip";
    nic.look_at_address();
    if (!events_of(nic).empty()) return "the address was never gone";
    if (!ip("addr del 10.9.0.1/24 dev d1") || !ip("addr add 10.9.0.7/24 dev d0")) return "ip";
    nic.look_at_address();
    if (events_of(nic) != "down ") return "it took an address of its former device";
    if (!ip("addr add 10.9.0.8/24 dev d1")) return "ip";
    nic.look_at_address();
    return events_of(nic) == "up " ? nullptr : "it does not return with one of its device";
  });
}

TEST_CASE("UDP NIC: it misses an address that any program may bind all the same") {
  in_namespace([]() -> const char* {
    if (!make_device("d0", "10.9.0.1/24") || !ip("addr add fd09::1/64 dev d0 nodad")) {
      return "no device";
    }
    for (const char* const version : {"ipv4", "ipv6"}) {
      std::ofstream(std::string("/proc/sys/net/") + version + "/ip_nonlocal_bind") << "1";
    }
    if (engine::is_usable(engine::parse_local_address("10.99.0.1"))) return "any address passes";
    if (!engine::is_usable(engine::parse_local_address("127.8.7.6"))) return "127/8 does not";
    SimplePool pool(4);
    UdpNic four(at("10.9.0.1"), pool);
    UdpNic six(at("fd09::1"), pool);
    if (!ip("addr del 10.9.0.1/24 dev d0") || !ip("addr del fd09::1/64 dev d0")) return "ip";
    four.look_at_address();
    six.look_at_address();
    if (events_of(four) != "down ") return "IPv4";
    if (events_of(six) != "down ") return "IPv6";
    if (!ip("addr add 10.9.0.2/24 dev d0") || !ip("addr add fd09::2/64 dev d0")) return "ip";
    four.look_at_address();
    six.look_at_address();
    if (events_of(four) != "up ") return "IPv4 again";
    return events_of(six).empty() ? nullptr : "a tentative address was taken";
  });
}

TEST_CASE("UDP look: it hears that an address has changed") {
  in_namespace([]() -> const char* {
    if (!make_devices("10.9.0.1/24", "10.8.0.1/24")) return "no devices";
    SimplePool pool(4);
    UdpNic nic(at("10.9.0.1"), pool);
    UdpNic lo(at("127.0.0.1"), pool);
    engine::UdpLook look;
    look.add(lo);
    if (look.descriptor() >= 0 || lo.has_device()) return "loopback is followed";
    look.add(nic);
    pollfd watched{look.descriptor(), POLLIN, 0};
    proto::Time now{1'000'000'000};
    const auto turn = [&] {
      now = now + proto::milliseconds(2);
      look.begin_turn(now, now);
    };
    turn();
    if (::poll(&watched, 1, 0) != 0) return "readable for nothing";
    if (!ip("addr del 10.9.0.1/24 dev d0")) return "ip";
    if (::poll(&watched, 1, 0) != 1) return "nothing heard";
    turn();
    if (events_of(nic) != "down ") return "not told";
    if (::poll(&watched, 1, 0) != 0) return "readable for ever";
    if (!ip("addr add 10.9.0.2/24 dev d0")) return "ip";
    turn();
    return events_of(nic) == "up " ? nullptr : "not told of the new one";
  });
}

}  // namespace hawser::test
