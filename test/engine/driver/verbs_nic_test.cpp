// SPDX-License-Identifier: Apache-2.0
// The verbs NIC beyond the contract that all NICs keep, over RDMA devices and over their double.
#include "engine/driver/verbs/verbs_nic.hpp"

#include <algorithm>

#include "hawser/engine.hpp"
#include "test/engine/driver/conformance/rigs.hpp"
#include "test/engine/rdma_ports.hpp"
#include "test/support/heap_guard.hpp"

namespace hawser::test {
namespace {

using engine::VerbsNic;
using engine::VerbsNicConfig;

std::string refusal(const VerbsNicConfig& config) {
  SimplePool pool(4);
  try {
    const VerbsNic nic(config, pool);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("verbs NIC: a burst goes by one doorbell and one completion a chain") {
  PooledVerbsRig rig;
  auto& sender = dynamic_cast<VerbsNic&>(rig.make());
  Nic& receiver = rig.make();
  const RemoteHandle to = open(sender, receiver);
  Burst burst(rig.pool);
  for (std::uint64_t id = 0; id < 40; ++id) {
    burst.add({.id = id, .header_bytes = 200, .remote = to});
  }
  REQUIRE(burst.send(sender) == 40);
  CHECK(rig.settle(receiver).size() == 40);
  CHECK(rig.reap_rest(sender).size() == 40);
  const auto stats = sender.stats(Queue::data).send;
  CHECK(stats.datagrams == 40);
  CHECK(stats.doorbells == 2);
  CHECK(stats.completions == 2);
  CHECK(stats.copied == 0);
  CHECK(stats.failed == 0);
}

TEST_CASE("verbs NIC: what is registered is not copied, what is small travels in the request") {
  PooledVerbsRig rig;
  auto& sender = dynamic_cast<VerbsNic&>(rig.make());
  Nic& receiver = rig.make();
  const RemoteHandle to = open(sender, receiver);
  std::vector<std::byte> payload = datagram(1, 3000);
  const auto send = [&](std::uint32_t header_bytes, std::uint32_t payload_bytes) {
    PacketBuffer* buffer = nullptr;
    REQUIRE(rig.pool.take({&buffer, 1}) == 1);
    fill({buffer->bytes, header_bytes}, 2);
    const TxPacket packet{.buffer = buffer,
                          .header_bytes = header_bytes,
                          .payload_bytes = payload_bytes,
                          .payload = payload.data() + 100,
                          .remote = to,
                          .cookie = 7};
    REQUIRE(send_now(sender, {&packet, 1}) == 1);
    auto arrived = rig.settle(receiver);
    REQUIRE(arrived.size() == 1);
    std::vector<std::byte> expected = datagram(2, header_bytes);
    expected.insert(expected.end(), payload.begin() + 100, payload.begin() + 100 + payload_bytes);
    CHECK(arrived[0] == expected);
    CHECK(rig.reap_rest(sender).size() == 1);
  };
  const auto stats = [&] { return sender.stats(Queue::data).send; };
  send(64, 2000);
  CHECK(stats().copied == 1);
  REQUIRE(sender.register_memory(payload.data(), payload.size()) == Status::ok);
  REQUIRE(sender.register_memory(payload.data(), payload.size()) == Status::ok);
  send(64, 2000);
  CHECK(stats().copied == 1);
  CHECK(stats().inlined == 0);
  send(28, 100);
  CHECK(stats().inlined == 1);
  sender.deregister_memory(payload.data(), payload.size());
  send(64, 2000);
  CHECK(stats().copied == 1);
  sender.deregister_memory(payload.data(), payload.size());
  send(64, 2000);
  CHECK(stats().copied == 2);
}

TEST_CASE("verbs NIC: every entropy reaches the remote", "[roce]") {
  PooledVerbsRig rig;
  Nic& sender = rig.make();
  Nic& receiver = rig.make();
  const RemoteHandle to = open(sender, receiver);
  CHECK(sender.caps().entropies == 4);
  std::array<PacketBuffer*, 4> buffers;
  REQUIRE(rig.pool.take(buffers) == 4);
  std::array<TxPacket, 4> packets;
  for (std::uint16_t i = 0; i < 4; ++i) {
    fill({buffers[i]->bytes, 200}, i);
    packets[i] = {.buffer = buffers[i], .header_bytes = 200, .remote = to, .entropy = i};
  }
  REQUIRE(send_now(sender, packets) == 4);
  CHECK(rig.settle(receiver).size() == 4);
  (void)rig.reap_rest(sender);
}

TEST_CASE("verbs NIC: a mark of congestion is shown with the packet that bears it", "[soft]") {
  PooledVerbsRig rig;
  Nic& sender = rig.make();
  Nic& receiver = rig.make();
  const RemoteHandle to = open(sender, receiver);
  const auto marked = [&] {
    Burst burst(rig.pool);
    for (std::uint64_t id = 0; id < 10; ++id) burst.add({.id = id, .remote = to});
    rig.send_all(sender, burst);
    std::array<RxPacket, 64> packets;
    const std::size_t count = rig.receive(receiver, Queue::data, packets);
    CHECK(count == 10);
    (void)rig.reap_rest(sender);
    return std::count_if(packets.begin(), packets.begin() + count,
                         [](const RxPacket& packet) { return packet.congestion_experienced; });
  };
  CHECK(marked() == 0);
  rig.mark(true);
  CHECK(marked() == 10);
  rig.mark(false);
  CHECK(marked() == 0);
}

TEST_CASE("verbs NIC: a packet with another QKey does not arrive, and does no harm") {
  PooledVerbsRig rig;
  Nic& sender = rig.make();
  Nic& receiver = rig.make();
  proto::NicAddress forged = receiver.address();
  forged.bytes[engine::VerbsAddressLayout::kQkey] ^= std::byte{1};
  RemoteHandle wrong = proto::kNoRemote;
  const RemoteHandle to = open(sender, receiver);
  REQUIRE(sender.open_remote(forged, wrong) == Status::ok);  // the port is known by now
  Burst burst(rig.pool);
  burst.add({.id = 1, .remote = wrong});
  burst.add({.id = 2, .remote = to});
  rig.send_all(sender, burst);
  const auto arrived = rig.settle(receiver);
  REQUIRE(arrived.size() == 1);
  CHECK(arrived[0] == datagram(2, 32));
  CHECK(rig.reap_rest(sender).size() == 2);
  std::array<proto::NicEvent, 1> events;
  CHECK(receiver.events(events) == 0);
}

TEST_CASE("verbs NIC: what can't be had is said in a sentence") {
  const PooledVerbsRig rig;
  using Catch::Contains;
  const engine::VerbsPortName port = engine::parse_verbs_port(rdma_ports()[0]);
  VerbsNicConfig config = verbs_config("mlx5_99");
  CHECK_THAT(refusal(config),
             Contains("verbs:mlx5_99") && Contains("no such RDMA device") && Contains(port.device));
  config.port = {.device = port.device, .port = 99};
  CHECK_THAT(refusal(config), Contains("no port 99"));
  config.port = {.device = port.device, .port = port.port, .gid_index = 255};
  CHECK_THAT(refusal(config), Contains("no entry at that index; it has 0 (") &&
                                  Contains(": write one of these after the @, or leave it out"));
}

TEST_CASE("verbs NIC: ports are listed with what they would use") {
  const PooledVerbsRig rig;
  const auto ports = engine::verbs_ports();
  engine::VerbsPortName mine = engine::parse_verbs_port(rdma_ports()[0]);
  mine.gid_index.reset();
  const auto found = std::ranges::find(ports, to_string(mine), &engine::VerbsPortInfo::name);
  REQUIRE(found != ports.end());
  CHECK(found->usable);
  CHECK_THAT(found->description, Catch::StartsWith("up, ") && Catch::Contains(" Gb/s, MTU ") &&
                                     Catch::Contains(", GID "));
}

TEST_CASE("verbs NIC: nothing is taken from the heap after construction") {
  PooledVerbsRig rig;
  Nic& a = rig.make();
  Nic& b = rig.make();
  const RemoteHandle to = open(a, b);
  std::vector<std::byte> payload(1000);
  std::array<PacketBuffer*, 32> buffers;
  std::array<TxPacket, 32> packets;
  std::array<RxPacket, 64> arrived;
  std::array<std::uint64_t, 64> cookies;
  std::array<proto::NicEvent, 4> events;
  const HeapGuard guard;
  for (int round = 0; round < 20; ++round) {
    RemoteHandle same{};
    (void)a.open_remote(b.address(), same);
    const std::size_t count = rig.pool.take(buffers);
    for (std::size_t i = 0; i < count; ++i) {
      packets[i] = {.buffer = buffers[i],
                    .header_bytes = 64,
                    .payload_bytes = static_cast<std::uint32_t>(i % 5 == 0 ? i : 1000),
                    .payload = payload.data(),
                    .remote = to,
                    .queue = i % 7 == 0 ? Queue::control : Queue::data,
                    .cookie = i};
    }
    const std::size_t taken = send_now(a, std::span(packets).first(count));
    rig.pool.give(std::span(buffers).first(count).subspan(taken));
    while (a.reap(cookies) > 0) {
    }
    for (const Queue queue : {Queue::data, Queue::control}) (void)b.rx_burst(queue, arrived);
    (void)b.events(events);
    (void)b.overruns();
    a.close_remote(same);
  }
  CHECK(guard.allocations() == 0);
}

}  // namespace hawser::test
