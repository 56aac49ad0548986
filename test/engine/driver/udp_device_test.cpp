// SPDX-License-Identifier: Apache-2.0
// The UDP NIC and its network device: which device its packets leave by, and what happens when the
// device gets another address.
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "engine/driver/udp/udp_device.hpp"
#include "engine/driver/udp/udp_look.hpp"
#include "engine/driver/udp/udp_route.hpp"
#include "test/engine/driver/own_network.hpp"

namespace hawser::test {
namespace {

using engine::UdpNic;
using engine::UdpNicConfig;
using proto::NicEvent;

UdpNicConfig at(const std::string& address) { return {.address = address}; }

// A process in a network namespace of its own, which runs the commands it is sent.
class OtherHost {
 public:
  OtherHost() {
    if (::pipe(words_) != 0 || ::pipe(answers_) != 0) return;
    child_ = ::fork();
    if (child_ == 0) serve();
    ::close(words_[0]);
    ::close(answers_[1]);
    (void)answer();  // the process is ready
  }
  ~OtherHost() {
    ::close(words_[1]);
    (void)::waitpid(child_, nullptr, 0);
  }
  OtherHost(const OtherHost&) = delete;
  OtherHost& operator=(const OtherHost&) = delete;

  [[nodiscard]] bool run(const std::string& line) {
    const std::string text = line + "\n";
    return ::write(words_[1], text.data(), text.size()) == ssize_t(text.size()) && answer();
  }
  [[nodiscard]] std::string pid() const { return std::to_string(child_); }

 private:
  [[nodiscard]] bool answer() {
    char ok = 0;
    return ::read(answers_[0], &ok, 1) == 1 && ok == 1;
  }
  [[noreturn]] void serve() {
    ::close(words_[1]);
    char ok = ::unshare(CLONE_NEWNET) == 0 ? 1 : 0;
    std::string line;
    for (;;) {
      if (::write(answers_[1], &ok, 1) != 1) ::_exit(1);
      line.clear();
      for (char c = 0; ::read(words_[0], &c, 1) == 1 && c != '\n';) line += c;
      if (line.empty()) ::_exit(0);
      ok = std::system(line.c_str()) == 0 ? 1 : 0;
    }
  }

  int words_[2] = {-1, -1};
  int answers_[2] = {-1, -1};
  pid_t child_ = -1;
};

// Two cables to another host, e0 and e1 here, f0 and f1 there, all four in one subnet of each IP
// version. The neighbours are entered beforehand, so no packet waits for a lookup.
struct TwoCables {
  OtherHost other;
  [[nodiscard]] bool lay() {
    for (const std::string i : {"0", "1"}) {
      const std::string here = i == "0" ? "1" : "3";
      const std::string there = i == "0" ? "2" : "4";
      if (!ip("link add e" + i + " address 02:00:00:00:00:0" + here + " type veth peer name f" + i +
              " address 02:00:00:00:00:0" + there + " netns " + other.pid()) ||
          !ip("addr add 10.7.0." + here + "/24 dev e" + i) ||
          !ip("addr add fd07::" + here + "/64 dev e" + i + " nodad") ||
          !ip("link set e" + i + " up") ||
          !other.run("ip addr add 10.7.0." + there + "/24 dev f" + i + " && ip addr add fd07::" +
                     there + "/64 dev f" + i + " nodad && ip link set f" + i + " up")) {
        return false;
      }
    }
    for (const std::string i : {"0", "1"}) {
      for (const std::string to : {"2", "4"}) {
        for (const std::string net : {"10.7.0.", "fd07::"}) {
          if (!ip("neigh replace " + net + to + " lladdr 02:00:00:00:00:0" + to + " dev e" + i)) {
            return false;
          }
        }
      }
    }
    return true;
  }
};

std::uint64_t bytes_sent_by(const std::string& device) {
  std::ifstream file("/proc/self/net/dev");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (name != device + ":") continue;
    std::uint64_t value = 0;
    for (int i = 0; i < 9; ++i) words >> value;
    return value;
  }
  return 0;
}

// A remote of the NIC at an address where no process listens.
RemoteHandle open_at(UdpNic& nic, const std::string& address) {
  engine::SocketAddress data = engine::parse_local_address(address);
  data.set_port(htons(4000));
  engine::SocketAddress control = data;
  control.set_port(htons(4001));
  RemoteHandle to{};
  if (nic.open_remote(engine::to_nic_address(data, control), to) != Status::ok) ::_exit(1);
  return to;
}

void send_to(SimplePool& pool, UdpNic& nic, RemoteHandle to, std::size_t count) {
  std::vector<std::byte> payload(1000);
  std::array<PacketBuffer*, 32> buffers;
  std::array<TxPacket, 32> packets;
  (void)pool.take(std::span(buffers).first(count));
  for (std::size_t i = 0; i < count; ++i) {
    packets[i] = {.buffer = buffers[i],
                  .header_bytes = 32,
                  .payload_bytes = 1000,
                  .payload = payload.data(),
                  .remote = to};
  }
  if (nic.tx_burst(std::span(packets).first(count)) != count) ::_exit(1);
}

void send_to(SimplePool& pool, UdpNic& nic, const std::string& address, std::size_t count) {
  send_to(pool, nic, open_at(nic, address), count);
}

std::string events_of(UdpNic& nic) {
  std::array<NicEvent, 8> events;
  std::string text;
  const std::size_t count = nic.events(events);
  for (std::size_t i = 0; i < count; ++i) {
    text += events[i].kind == NicEvent::Kind::up ? "up " : "down ";
  }
  return text;
}

// Makes a device with no host at its other end.
bool make_device(const std::string& name, const std::string& address) {
  return ip("link add " + name + " type veth peer name p" + name) &&
         ip("link set p" + name + " up") && ip("link set " + name + " up") &&
         ip("addr add " + address + " dev " + name +
            (address.find(':') == std::string::npos ? "" : " nodad"));
}

// Makes devices d0 and d1, each in a subnet of its own.
bool make_devices(const char* first, const char* second) {
  return make_device("d0", first) && make_device("d1", second);
}

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

TEST_CASE("UDP NIC: what comes by another device is taken, and counted") {
  in_namespace([]() -> const char* {
    TwoCables cables;
    if (!cables.lay()) return "no cables";
    SimplePool pool(64);
    UdpNic one(at("10.7.0.3"), pool);
    send_to(pool, one, "10.7.0.4", 1);
    in_port_t port = 0;
    std::memcpy(&port, &one.address().bytes[engine::UdpAddressLayout::kDataPort], sizeof port);
    const auto tell = [&](const std::string& device, const char* mac) {
      return cables.other.run("ip route replace 10.7.0.3/32 dev " + device +
                              " && ip neigh replace 10.7.0.3 lladdr 02:00:00:00:00:0" + mac +
                              " dev " + device + " && bash -c 'echo x >/dev/udp/10.7.0.3/" +
                              std::to_string(ntohs(port)) + "'");
    };
    std::array<RxPacket, 8> packets;
    if (!tell("f1", "3") || one.rx_burst(Queue::data, packets) != 1) return "by its own";
    if (one.detours().by_other_devices != 0) return "counted";
    if (!tell("f0", "1") || one.rx_burst(Queue::data, packets) != 1) return "by the other";
    if (one.detours().by_other_devices != 1) return "not counted";
    return nullptr;
  });
}

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
