// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/udp/udp_nic.hpp"

#include <sys/resource.h>

#include <string>

#include "hawser/engine.hpp"
#include "test/engine/driver/nic_user.hpp"
#include "test/engine/driver/stranger.hpp"
#include "test/support/heap_guard.hpp"

namespace hawser::test {
namespace {

using engine::UdpNic;
using engine::UdpNicConfig;

UdpNicConfig at(const char* address) { return {.address = address, .receive_bytes = 1 << 20}; }

std::string refusal(const UdpNicConfig& config) {
  SimplePool pool(4);
  try {
    const UdpNic nic(config, pool);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Sends `count` datagrams of `bytes` each in one burst; returns how many arrive.
std::size_t exchange(SimplePool& pool, Nic& from, Nic& to, std::uint64_t count, std::size_t bytes) {
  Burst burst(pool);
  const RemoteHandle handle = open(from, to);
  for (std::uint64_t id = 0; id < count; ++id) {
    burst.add({.id = id, .payload_bytes = bytes - 32, .remote = handle});
  }
  REQUIRE(burst.send(from) == count);
  CHECK(reap_all(from).size() == count);
  const auto arrived = receive_all(to);
  for (std::uint64_t id = 0; id < arrived.size(); ++id) CHECK(arrived[id] == datagram(id, bytes));
  from.close_remote(handle);
  return arrived.size();
}

}  // namespace

TEST_CASE("UDP NIC: it says what it is") {
  SimplePool pool(4);
  const UdpNic nic(at("127.0.0.2"), pool);
  CHECK(nic.name() == "udp:127.0.0.2");
  const proto::NicCaps& caps = nic.caps();
  CHECK(caps.max_datagram_bytes == 65507);  // lo has an MTU of 65536
  CHECK(caps.payload_bytes == 65507);       // as much as fits
  CHECK(caps.burst == 60);                  // 4160 bytes each in 65507, four times
  CHECK(caps.entropies == 1);
  CHECK(caps.needs_checksum);
  CHECK(caps.link_bytes_per_s == 0);
  using Layout = engine::UdpAddressLayout;
  const auto& bytes = nic.address().bytes;
  CHECK(bytes[Layout::kKind] == std::byte{2});
  CHECK(bytes[Layout::kFamily] == std::byte{4});
  const std::array<std::byte, 16> ip{std::byte{127}, std::byte{0}, std::byte{0}, std::byte{2}};
  CHECK(std::equal(ip.begin(), ip.end(), bytes.begin() + Layout::kIp));
  CHECK(std::all_of(bytes.begin() + Layout::kEnd, bytes.end(),
                    [](std::byte b) { return b == std::byte{0}; }));
}

TEST_CASE("UDP NIC: without a checksum if it is told so") {
  SimplePool pool(4);
  UdpNicConfig config = at("127.0.0.1");
  config.checksum = false;
  CHECK_FALSE(UdpNic(config, pool).caps().needs_checksum);
}

TEST_CASE("UDP NIC: the burst follows the length of a full packet") {
  SimplePool pool(4);
  const auto burst = [&](std::uint32_t datagram_bytes, bool segment) {
    UdpNicConfig config = at("127.0.0.1");
    config.datagram_bytes = datagram_bytes;
    config.segment = segment;
    return UdpNic(config, pool).caps().burst;
  };
  CHECK(burst(1500, true) == 43);
  CHECK(burst(100, true) == 64);
  CHECK(burst(30'800, true) == 8);
  CHECK(burst(40'000, true) == 4);
  CHECK(burst(1'000'000, true) == 4);
  CHECK(burst(4160, false) == 1);
}

TEST_CASE("UDP NIC: equal neighbours go as one message and come as one") {
  SimplePool pool(256);
  UdpNic a(at("127.0.0.1"), pool);
  UdpNic b(at("127.0.0.2"), pool);
  CHECK(exchange(pool, a, b, 15, 4160) == 15);
  CHECK(a.stats(Queue::data).send.messages == 1);
  CHECK(a.stats(Queue::data).send.calls == 1);
  CHECK(a.stats(Queue::data).send.datagrams == 15);
  CHECK(b.stats(Queue::data).receive.messages == 1);
  CHECK(b.stats(Queue::data).receive.calls == 1);  // no second call for an empty queue
  CHECK(b.stats(Queue::data).receive.datagrams == 15);
  // 16 don't fit in 65507 bytes. Both messages go out in one system call.
  CHECK(exchange(pool, a, b, 16, 4160) == 16);
  CHECK(a.stats(Queue::data).send.messages == 3);
  CHECK(a.stats(Queue::data).send.calls == 2);
  // A message has at most 64 segments.
  CHECK(exchange(pool, a, b, 65, 40) == 65);
  CHECK(a.stats(Queue::data).send.messages == 5);
  CHECK(a.stats(Queue::control).send.calls == 0);
}

TEST_CASE("UDP NIC: kernels without segmentation or coalescing are served too") {
  SimplePool pool(256);
  const bool segment = GENERATE(true, false);
  const bool coalesce = GENERATE(true, false);
  UdpNicConfig config = at("127.0.0.1");
  config.segment = segment;
  config.coalesce = coalesce;
  UdpNic a(config, pool);
  UdpNic b(config, pool);
  CHECK(exchange(pool, a, b, 15, 4160) == 15);
  CHECK(a.stats(Queue::data).send.messages == (segment ? 1 : 15));
  CHECK(b.stats(Queue::data).receive.messages == (segment && coalesce ? 1 : 15));
}

TEST_CASE("UDP NIC: a mark of congestion is shown with the packet that bears it") {
  SimplePool pool(16);
  UdpNic nic(at("127.0.0.1"), pool);
  Stranger stranger;
  const auto bytes = datagram(1, 64);
  std::array<RxPacket, 4> packets;
  for (const auto& [tos, marked] : {std::pair(0, false), std::pair(2, false), std::pair(3, true),
                                    std::pair(1, false), std::pair(0x2f, true)}) {
    stranger.set_tos(tos);
    stranger.send(nic, Queue::data, bytes);
    REQUIRE(nic.rx_burst(Queue::data, packets) == 1);
    CHECK(packets[0].congestion_experienced == marked);
    CHECK(equals(packets[0], bytes));
  }
}

TEST_CASE("UDP NIC: what strangers throw at its ports does no harm") {
  SimplePool pool(16);
  UdpNic nic(at("127.0.0.1"), pool);
  UdpNic friendly(at("127.0.0.1"), pool);
  Stranger stranger;
  for (const Queue queue : {Queue::data, Queue::control}) {
    for (int i = 0; i < 200; ++i) stranger.send(nic, queue, {});  // more empty datagrams than slabs
    stranger.send(nic, queue, datagram(3, 65507));
    stranger.send(nic, queue, datagram(4, 1));
    const auto arrived = receive_all(nic, queue);
    REQUIRE(arrived.size() == 2);
    CHECK(arrived[0] == datagram(3, 65507));
    CHECK(arrived[1] == datagram(4, 1));
    CHECK(nic.stats(queue).receive.malformed == 200);
  }
  CHECK(exchange(pool, friendly, nic, 10, 100) == 10);
}

TEST_CASE("UDP NIC: addresses of another family, kind or shape are refused") {
  SimplePool pool(4);
  UdpNic four(at("127.0.0.1"), pool);
  UdpNic six(at("::1"), pool);
  CHECK(six.caps().max_datagram_bytes == 65487);
  RemoteHandle handle{};
  CHECK(four.open_remote(six.address(), handle) == Status::invalid_argument);
  CHECK(six.open_remote(four.address(), handle) == Status::invalid_argument);
  using Layout = engine::UdpAddressLayout;
  const auto with = [&](std::size_t where, std::initializer_list<int> values) {
    proto::NicAddress address = four.address();
    std::size_t at_byte = where;
    for (const int value : values) address.bytes[at_byte++] = static_cast<std::byte>(value);
    return four.open_remote(address, handle);
  };
  CHECK(with(Layout::kDataPort, {0, 0}) == Status::invalid_argument);
  CHECK(with(Layout::kControlPort, {0, 0}) == Status::invalid_argument);
  CHECK(with(Layout::kFamily, {5}) == Status::invalid_argument);
  CHECK(with(Layout::kIp, {0, 0, 0, 0}) == Status::invalid_argument);
  CHECK(with(Layout::kIp, {255, 255, 255, 255}) == Status::invalid_argument);
  CHECK(with(Layout::kIp, {224, 0, 0, 1}) == Status::invalid_argument);
  CHECK(with(Layout::kIp + 4, {1}) == Status::invalid_argument);
  CHECK(with(Layout::kEnd, {1}) == Status::invalid_argument);
  CHECK(with(Layout::kIp, {127, 0, 0, 9}) == Status::ok);
}

TEST_CASE("UDP NIC: what can't be had is said in a sentence") {
  using Catch::Contains;
  CHECK_THAT(refusal(at("203.0.113.77")),
             Contains("udp:203.0.113.77") && Contains("no such address"));
  CHECK_THAT(refusal(at("nonsense")), Contains("udp:nonsense") && Contains("not an IPv4 or IPv6"));
  CHECK_THAT(refusal(at("")), Contains("not an IPv4 or IPv6"));
  CHECK_THAT(refusal(at("127.0.0.1:80")), Contains("not an IPv4 or IPv6"));
  CHECK_THAT(refusal(at("fe80::1%no-such")),
             Contains("udp:fe80::1%no-such: this host has no interface \"no-such\" (`ip link`"));
  CHECK_THAT(refusal(at("fe80::1%99999")), Contains("no interface of that index"));
  CHECK_THAT(refusal(at("fd00::1%lo")),
             Contains("only a link-local address") && Contains("write udp:fd00::1"));
  CHECK_THAT(refusal(at("nonsense%lo")), Contains("not an IPv4 or IPv6"));
  CHECK_THAT(refusal(at("0.0.0.0")), Contains("of one interface"));
  CHECK_THAT(refusal(at("::")), Contains("of one interface"));
  CHECK_THAT(refusal(at("224.0.0.1")), Contains("of one interface"));

  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit none = before;
  none.rlim_cur = 3;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const std::string sentence = refusal(at("127.0.0.1"));
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK_THAT(sentence, Contains("too many files open"));
}

TEST_CASE("UDP NIC: what a receive buffer holds is estimated on the safe side") {
  // Measured on Linux, a datagram of 600 bytes is charged 1280, 1400 bytes 2304, 4192 bytes 8448.
  CHECK(engine::datagram_bytes_in(8 << 20, 600) == std::uint64_t{6 << 20} / 1280 * 600);
  CHECK(engine::datagram_bytes_in(8 << 20, 1400) == std::uint64_t{6 << 20} / 2304 * 1400);
  CHECK(engine::datagram_bytes_in(8 << 20, 4192) == std::uint64_t{6 << 20} / 8448 * 4192);
  CHECK(engine::datagram_bytes_in(8 << 20, 64) == std::uint64_t{6 << 20} / 832 * 64);
  CHECK(engine::datagram_bytes_in(0, 4192) == 0);
}

TEST_CASE("UDP NIC: nothing is taken from the heap after construction") {
  SimplePool pool(64);
  UdpNic a(at("127.0.0.1"), pool);
  UdpNic b(at("127.0.0.1"), pool);
  std::vector<std::byte> payload(1000);
  std::array<PacketBuffer*, 32> buffers;
  std::array<TxPacket, 32> packets;
  std::array<RxPacket, 64> arrived;
  std::array<std::uint64_t, 64> cookies;
  std::array<int, 2> fds;
  const HeapGuard guard;
  std::size_t received = 0;
  for (int round = 0; round < 50; ++round) {
    RemoteHandle to{};
    (void)a.open_remote(b.address(), to);
    (void)pool.take(buffers);
    for (std::size_t i = 0; i < packets.size(); ++i) {
      packets[i] = {.buffer = buffers[i],
                    .header_bytes = 64,
                    .payload_bytes = static_cast<std::uint32_t>(i % 5 == 0 ? i : 1000),
                    .payload = payload.data(),
                    .remote = to,
                    .queue = i % 7 == 0 ? Queue::control : Queue::data,
                    .cookie = i};
    }
    (void)a.tx_burst(packets);
    while (a.reap(cookies) > 0) {
    }
    for (const Queue queue : {Queue::data, Queue::control}) {
      received += b.rx_burst(queue, arrived);
    }
    (void)b.descriptors(fds);
    (void)b.overruns();
    a.close_remote(to);
  }
  CHECK(guard.allocations() == 0);
  CHECK(received == 50 * 32);
}

}  // namespace hawser::test
