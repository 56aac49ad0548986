// SPDX-License-Identifier: Apache-2.0
// Two network devices that lead to another host, in a network namespace of the test's own, and what
// a UDP NIC sends by each of them.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "test/engine/driver/own_network.hpp"

namespace hawser::test {

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
    return enter_neighbours("e0") && enter_neighbours("e1");
  }
  // A device forgets its neighbours when it goes down.
  [[nodiscard]] static bool enter_neighbours(const std::string& device) {
    for (const std::string to : {"2", "4"}) {
      for (const std::string net : {"10.7.0.", "fd07::"}) {
        if (!ip("neigh replace " + net + to + " lladdr 02:00:00:00:00:0" + to + " dev " + device)) {
          return false;
        }
      }
    }
    return true;
  }
  // Makes a datagram come from the other host to `address`, by the cable with this number.
  [[nodiscard]] bool tell(const std::string& address, in_port_t port, int cable) {
    const std::string number = std::to_string(cable);
    return other.run(
        "ip route replace " + address + "/32 dev f" + number + " && ip neigh replace " + address +
        " lladdr 02:00:00:00:00:0" + (cable == 0 ? "1" : "3") + " dev f" + number +
        " && bash -c 'echo x >/dev/udp/" + address + "/" + std::to_string(ntohs(port)) + "'");
  }
};

inline in_port_t data_port_of(const engine::UdpNic& nic) {
  in_port_t port = 0;
  std::memcpy(&port, &nic.address().bytes[engine::UdpAddressLayout::kDataPort], sizeof port);
  return port;
}

inline std::uint64_t bytes_sent_by(const std::string& device) {
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
inline RemoteHandle open_at(engine::UdpNic& nic, const std::string& address) {
  engine::SocketAddress data = engine::parse_local_address(address);
  data.set_port(htons(4000));
  engine::SocketAddress control = data;
  control.set_port(htons(4001));
  RemoteHandle to{};
  if (nic.open_remote(engine::to_nic_address(data, control), to) != Status::ok) ::_exit(1);
  return to;
}

// Sends packets of 1,032 bytes with this type in their header.
inline void send_to(SimplePool& pool, engine::UdpNic& nic, RemoteHandle to, std::size_t count,
                    std::uint8_t type = 0) {
  std::vector<std::byte> payload(1000);
  std::array<PacketBuffer*, 32> buffers;
  std::array<TxPacket, 32> packets;
  (void)pool.take(std::span(buffers).first(count));
  for (std::size_t i = 0; i < count; ++i) {
    buffers[i]->bytes[1] = std::byte{type};
    packets[i] = {.buffer = buffers[i],
                  .header_bytes = 32,
                  .payload_bytes = 1000,
                  .payload = payload.data(),
                  .remote = to};
  }
  if (nic.tx_burst(std::span(packets).first(count)) != count) ::_exit(1);
}

inline void send_to(SimplePool& pool, engine::UdpNic& nic, const std::string& address,
                    std::size_t count) {
  send_to(pool, nic, open_at(nic, address), count);
}

// Without those that only say that ways may have changed.
inline std::string events_of(engine::UdpNic& nic) {
  std::array<proto::NicEvent, 8> events;
  std::string text;
  const std::size_t count = nic.events(events);
  for (std::size_t i = 0; i < count; ++i) {
    if (events[i].kind == proto::NicEvent::Kind::ways) continue;
    text += events[i].kind == proto::NicEvent::Kind::up ? "up " : "down ";
  }
  return text;
}

}  // namespace hawser::test
