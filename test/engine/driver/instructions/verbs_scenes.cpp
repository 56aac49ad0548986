// SPDX-License-Identifier: Apache-2.0
// Bursts through two verbs NICs over the double, for verbs.py, which counts instructions and keeps
// the double's apart. Each measured_ function is where valgrind begins and ends to count.
#include <catch2/catch.hpp>

#include "test/engine/driver/fake_verbs/two_nics.hpp"

namespace hawser::test {
namespace {

constexpr std::size_t kBurst = 32;
constexpr std::size_t kRounds = 100;  // as in verbs.py

[[gnu::noinline]] std::size_t measured_send(Nic& nic, std::span<const TxPacket> packets) {
  const std::size_t sent = nic.tx_burst(packets);
  nic.flush();
  return sent;
}
[[gnu::noinline]] std::size_t measured_reap(Nic& nic, std::span<std::uint64_t> cookies) {
  return nic.reap(cookies);
}
[[gnu::noinline]] std::size_t measured_receive(Nic& nic, std::span<RxPacket> packets) {
  return nic.rx_burst(Queue::data, packets);
}
[[gnu::noinline]] std::size_t measured_idle(Nic& nic, std::span<std::uint64_t> cookies,
                                            std::span<RxPacket> packets) {
  return nic.reap(cookies) + nic.rx_burst(Queue::data, packets) +
         nic.rx_burst(Queue::control, packets);
}

template <class Rig>
void run(std::uint32_t header_bytes, std::uint32_t payload_bytes, bool registered) {
  TwoNics<Rig> nics;
  std::vector<std::byte> payload(payload_bytes);
  if (registered) REQUIRE(nics.mine.register_memory(payload.data(), payload.size()) == Status::ok);
  std::array<PacketBuffer*, kBurst> buffers;
  std::array<TxPacket, kBurst> packets;
  std::array<std::uint64_t, kBurst> cookies;
  std::array<RxPacket, 64> received;
  for (std::size_t round = 0; round < kRounds; ++round) {
    REQUIRE(nics.rig.pool.take(buffers) == kBurst);
    for (std::size_t i = 0; i < kBurst; ++i) {
      packets[i] = {.buffer = buffers[i],
                    .header_bytes = header_bytes,
                    .payload_bytes = payload_bytes,
                    .payload = payload_bytes == 0 ? nullptr : payload.data(),
                    .remote = nics.to_theirs,
                    .cookie = i};
    }
    REQUIRE(measured_send(nics.mine, packets) == kBurst);
    REQUIRE(measured_reap(nics.mine, cookies) == kBurst);
    REQUIRE(measured_receive(nics.theirs, received) == kBurst);
    REQUIRE(measured_idle(nics.theirs, cookies, received) == 0);
  }
  if (registered) nics.mine.deregister_memory(payload.data(), payload.size());
}

TEST_CASE("in_place") { run<PooledVerbsRig>(64, 4032, true); }
TEST_CASE("copied") { run<PooledVerbsRig>(64, 4032, false); }
TEST_CASE("inlined") { run<PooledVerbsRig>(64, 32, false); }

}  // namespace
}  // namespace hawser::test
