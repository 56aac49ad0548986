// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/udp/udp_screen.hpp"

#include <array>
#include <vector>

#include "engine/driver/udp/udp_nic.hpp"
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
