// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/udp/udp_screen.hpp"

#include <array>
#include <vector>

#include "engine/descriptor.hpp"
#include "engine/driver/udp/udp_nic.hpp"
#include "engine/driver/udp/udp_socket.hpp"
#include "proto/wire/layout.hpp"
#include "test/engine/driver/nic_user.hpp"
#include "test/engine/driver/stranger.hpp"

namespace hawser::test {
namespace {

namespace wire = proto::wire;
using engine::UdpNic;

// Peers 0 to 255 of an endpoint that has drawn 0x12345600 for the field `receiver`.
constexpr proto::Screen kScreen{0xffffff00, 0x12345600};
constexpr std::uint32_t kName = 0x123456a7;
constexpr std::uint32_t kAnotherName = 0x123457a7;

std::vector<std::byte> packet(wire::PacketType type, std::uint32_t receiver, std::size_t bytes) {
  std::vector<std::byte> result = datagram(receiver, bytes);
  wire::CommonHeader header{};
  header.version = wire::kVersion;
  header.type = type;
  header.receiver = receiver;
  std::memcpy(result.data(), &header, sizeof header);
  return result;
}

// The smallest receive buffer holds some packets that are not counted.
constexpr std::uint64_t kHeld = 4;

TEST_CASE("UdpScreen__lets_through_what_may_be_for_the_endpoint_and_counts_the_rest") {
  const bool v6 = GENERATE(false, true);
  const Queue queue = GENERATE(Queue::data, Queue::control);
  CAPTURE(v6, queue);
  SimplePool pool(4);
  UdpNic nic({.address = v6 ? "::1" : "127.0.0.1", .receive_bytes = 1 << 20}, pool);
  nic.screen(kScreen);
  Stranger stranger(v6);
  constexpr std::uint64_t kEach = 50;
  auto other_version = packet(wire::PacketType::data, kName, 100);
  other_version[0] = std::byte{wire::kVersion + 1};
  const std::array strange{
      packet(wire::PacketType::data, kAnotherName, 100),
      packet(wire::PacketType::data, kAnotherName, 9000),
      packet(wire::PacketType::control, wire::kNoReceiver, 64),
      other_version,
      packet(wire::PacketType{0}, kAnotherName, 100),
      datagram(1, sizeof(wire::CommonHeader) - 1),
      datagram(2, 1),
      std::vector<std::byte>(),
  };
  for (std::uint64_t i = 0; i < kEach; ++i) {
    for (const auto& bytes : strange) stranger.send(nic, queue, bytes);
  }
  CHECK(receive_all(nic, queue).empty());
  CHECK(nic.screened() <= kEach * strange.size());
  CHECK(nic.screened() + kHeld >= kEach * strange.size());

  const std::array wanted{
      packet(wire::PacketType::data, kName, 100),
      packet(wire::PacketType::control, kName, sizeof(wire::CommonHeader)),
      packet(wire::PacketType::granted, kScreen.receiver_value, 9000),
  };
  for (const auto& bytes : wanted) stranger.send(nic, queue, bytes);
  const auto arrived = receive_all(nic, queue);
  REQUIRE(arrived.size() == wanted.size());
  CHECK(std::equal(arrived.begin(), arrived.end(), wanted.begin()));
  CHECK(nic.overruns() == 0);
}

TEST_CASE("UdpScreen__handshakes_pass_on_the_data_queue_only") {
  SimplePool pool(4);
  UdpNic nic({.address = "127.0.0.1", .receive_bytes = 1 << 20}, pool);
  nic.screen(kScreen);
  Stranger stranger;
  for (const std::uint32_t receiver : {wire::kNoReceiver, kAnotherName, kName}) {
    const auto hello = packet(wire::PacketType::hello, receiver, 200);
    stranger.send(nic, Queue::data, hello);
    const auto arrived = receive_all(nic);
    REQUIRE(arrived.size() == 1);
    CHECK(arrived[0] == hello);
  }
  stranger.send(nic, Queue::control, packet(wire::PacketType::hello, wire::kNoReceiver, 200));
  CHECK(receive_all(nic, Queue::control).empty());
}

// However many packets strangers send, they take no room from the expected ones.
TEST_CASE("UdpScreen__a_flood_of_strange_packets_takes_no_room") {
  SimplePool pool(4);
  UdpNic nic({.address = "127.0.0.1", .receive_bytes = 1 << 16}, pool);
  const bool screens = GENERATE(true, false);
  CAPTURE(screens);
  if (screens) nic.screen(kScreen);
  Stranger stranger;
  const auto strange = packet(wire::PacketType::data, kAnotherName, 4000);
  const auto wanted = packet(wire::PacketType::data, kName, 4000);
  for (int i = 0; i < 1000; ++i) stranger.send(nic, Queue::data, strange);
  stranger.send(nic, Queue::data, wanted);
  const auto arrived = receive_all(nic);
  CHECK((nic.overruns() == 0) == screens);
  CHECK((arrived.size() == 1 && arrived[0] == wanted) == screens);
}

int data_socket_of(const UdpNic& nic) {
  std::array<int, 2> fds{};
  (void)nic.descriptors(fds);
  return fds[0];
}

// Sends datagrams whose checksum is wrong from 127.0.0.1 to itself.
class Damager {
 public:
  Damager() : raw_(::socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_UDP)) {}
  [[nodiscard]] bool is_permitted() const { return static_cast<bool>(raw_); }

  void send(const UdpNic& to, std::size_t count) const {
    const auto& address = to.address().bytes;
    using Layout = engine::UdpAddressLayout;
    sockaddr_in remote{};
    remote.sin_family = AF_INET;
    std::memcpy(&remote.sin_addr, &address[Layout::kIp], sizeof remote.sin_addr);
    std::array<std::byte, kBytes> bytes{};
    in_port_t port = 0;
    std::memcpy(&port, &address[Layout::kDataPort], sizeof port);
    std::memcpy(&bytes[2], &port, sizeof port);
    const std::uint16_t length = htons(kBytes);
    std::memcpy(&bytes[4], &length, sizeof length);
    // The right one is that of both addresses, the protocol, the length and the header.
    std::uint32_t sum = 2 * (0x7f00 + 0x0001) + IPPROTO_UDP + kBytes + ntohs(port) + kBytes;
    while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
    const std::uint16_t wrong = htons((~sum & 0xffff) == 1 ? 2 : 1);
    std::memcpy(&bytes[6], &wrong, sizeof wrong);
    for (std::size_t i = 0; i < count; ++i) {
      REQUIRE(::sendto(raw_.get(), bytes.data(), bytes.size(), 0,
                       reinterpret_cast<const sockaddr*>(&remote), sizeof remote) == kBytes);
    }
  }

 private:
  // Bytes of header and payload. The kernel checks short datagrams before it has found their
  // socket.
  static constexpr std::uint16_t kBytes = 200;
  engine::Descriptor raw_;
};

// The kernel counts them at the socket, as it counts overruns.
TEST_CASE("UdpOverruns__datagrams_with_a_wrong_checksum_are_none") {
  const Damager damager;
  if (!damager.is_permitted()) {
    WARN("no permission to open a raw socket: not tested");
    return;
  }
  SimplePool pool(4);
  UdpNic nic({.address = "127.0.0.1", .receive_bytes = 1 << 20}, pool);
  Stranger stranger;
  const auto wanted = packet(wire::PacketType::data, kName, 4000);
  constexpr std::uint64_t kLooks = 20;
  for (std::uint64_t look = 1; look <= kLooks; ++look) {
    damager.send(nic, 3);
    for (int burst = 0; burst < 30; ++burst) {  // more in all than the buffer holds
      for (int i = 0; i < 10; ++i) stranger.send(nic, Queue::data, wanted);
      CHECK(receive_all(nic).size() == 10);
    }
    CHECK(engine::receive_buffer_of(data_socket_of(nic)).drops == look * 3);
    CHECK(nic.overruns() == 0);
  }
}

TEST_CASE("UdpOverruns__one_counts_whether_the_buffer_is_drained_by_then_or_not") {
  const std::size_t bytes = GENERATE(32, 4000, 60'000);
  const bool drains = GENERATE(true, false);
  CAPTURE(bytes, drains);
  SimplePool pool(4);
  UdpNic nic({.address = "127.0.0.1", .receive_bytes = 1 << 18}, pool);
  Stranger stranger;
  const auto wanted = packet(wire::PacketType::data, kName, bytes);
  std::uint64_t before = 0;
  for (int flood = 0; flood < 3; ++flood) {
    for (int i = 0; i < 2000; ++i) stranger.send(nic, Queue::data, wanted);
    if (drains) (void)receive_all(nic);
    const std::uint64_t overruns = nic.overruns();
    CHECK(overruns > before);
    CHECK(overruns == engine::receive_buffer_of(data_socket_of(nic)).drops);
    CHECK(nic.overruns() == overruns);
    before = overruns;
    (void)receive_all(nic);
  }
}

TEST_CASE("UdpScreen__is_gone_with_its_nic_and_can_be_set_anew") {
  SimplePool pool(4);
  Stranger stranger;
  UdpNic nic({.address = "127.0.0.1", .receive_bytes = 1 << 20}, pool);
  for (const std::uint32_t name : {kName, kAnotherName, kName}) {
    nic.screen({0xffffff00, name & 0xffffff00});
    stranger.send(nic, Queue::data, packet(wire::PacketType::data, kName, 100));
    CHECK(receive_all(nic).size() == (name == kName ? 1 : 0));
  }
}

}  // namespace
}  // namespace hawser::test
