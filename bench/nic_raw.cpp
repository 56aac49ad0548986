// SPDX-License-Identifier: Apache-2.0
// Question: what do the NIC drivers themselves cost, and carry, with no protocol over them? Metric:
// one thread sends a burst, reaps and receives it: ns a datagram inside tx_burst + reap and inside
// rx_burst. Then a sending and a receiving thread with a window of receive_bytes: GB/s of
// datagrams. Drivers: memory, UDP with and without segmentation and coalescing, and each behind an
// idle fault layer; buffers come from the engine's pool. Bursts are of caps().burst for UDP and 32
// for memory, headers of 48 bytes. Runtime: 3 s. `--short` moves less, for the tests. The hash is
// over all that was received.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "engine/driver/fault/fault_nic.hpp"
#include "engine/driver/memory/memory_nic.hpp"
#include "engine/driver/udp/udp_nic.hpp"
#include "engine/packet_pool.hpp"
#include "hawser/engine.hpp"

namespace {

using namespace hawser;
using Clock = std::chrono::steady_clock;
using proto::Queue;

constexpr std::uint32_t kHeader = 48;
constexpr std::size_t kMaxBurst = 64;

std::int64_t ns_since(Clock::time_point start) {
  return std::chrono::nanoseconds(Clock::now() - start).count();
}

using MakeNic = std::function<std::unique_ptr<proto::Nic>(proto::PacketPool&)>;

struct Driver {
  std::string_view name;
  std::size_t burst;
  MakeNic make;
};

MakeNic behind_fault_layer(MakeNic inner) {
  return [inner = std::move(inner)](proto::PacketPool& pool) -> std::unique_ptr<proto::Nic> {
    return std::make_unique<engine::FaultNic>(inner(pool), pool, engine::FaultNicConfig{});
  };
}

std::vector<Driver> drivers() {
  const auto fabric = std::make_shared<engine::MemoryFabric>();
  const MakeNic memory = [fabric](proto::PacketPool& pool) -> std::unique_ptr<proto::Nic> {
    return std::make_unique<engine::MemoryNic>(fabric, engine::MemoryNicConfig{}, pool);
  };
  const auto udp = [](bool offload) -> MakeNic {
    return [offload](proto::PacketPool& pool) -> std::unique_ptr<proto::Nic> {
      engine::UdpNicConfig config{.address = "127.0.0.1"};
      config.segment = config.coalesce = offload;
      return std::make_unique<engine::UdpNic>(config, pool);
    };
  };
  return {{"memory", 32, memory},
          {"memory, fault layer", 32, behind_fault_layer(memory)},
          {"udp", 15, udp(true)},
          {"udp, fault layer", 15, behind_fault_layer(udp(true))},
          {"udp, no offload", 15, udp(false)}};
}

// One side: a NIC, its pool, and bursts of one payload.
class Side {
 public:
  Side(const Driver& driver, std::uint32_t payload_bytes)
      : pool_(4096), nic(driver.make(pool_)), payload_(payload_bytes, std::byte{0x5a}) {}

  void connect(const Side& other) {
    if (nic->open_remote(other.nic->address(), to_) != Status::ok) throw Error("can't open it");
  }

  // Sends up to `count` packets with consecutive numbers, and returns how many went out.
  std::size_t send(std::size_t count) {
    std::array<proto::PacketBuffer*, kMaxBurst> buffers;
    std::array<proto::TxPacket, kMaxBurst> packets;
    count = pool_.take(std::span(buffers).first(count));
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t number = sent + i;
      std::memcpy(buffers[i]->bytes, &number, sizeof number);
      packets[i] = {.buffer = buffers[i],
                    .header_bytes = kHeader,
                    .payload_bytes = static_cast<std::uint32_t>(payload_.size()),
                    .payload = payload_.data(),
                    .remote = to_,
                    .cookie = number};
    }
    const std::size_t taken = nic->tx_burst(std::span(packets).first(count));
    pool_.give(std::span(buffers).first(count).subspan(taken));
    std::array<std::uint64_t, kMaxBurst> cookies;
    while (nic->reap(cookies) == cookies.size()) {
    }
    sent += taken;
    return taken;
  }

  std::size_t receive() {
    std::array<proto::RxPacket, proto::Nic::kMaxRxBurst> packets;
    const std::size_t count = nic->rx_burst(Queue::data, packets);
    for (std::size_t i = 0; i < count; ++i) {
      std::uint64_t number = 0;
      std::memcpy(&number, packets[i].data, sizeof number);
      hash = (hash ^ number ^ packets[i].bytes) * 0x100000001b3u;
    }
    received += count;
    return count;
  }

 private:
  engine::StackPacketPool pool_;

 public:
  std::unique_ptr<proto::Nic> nic;
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  std::uint64_t hash = 0xcbf29ce484222325u;

 private:
  std::vector<std::byte> payload_;
  proto::RemoteHandle to_ = proto::kNoRemote;
};

bool cost(const Driver& driver, std::uint32_t payload_bytes, std::uint64_t datagrams) {
  Side a(driver, payload_bytes);
  Side b(driver, payload_bytes);
  a.connect(b);
  std::int64_t send_ns = 0;
  std::int64_t receive_ns = 0;
  while (a.sent < datagrams) {
    const auto start = Clock::now();
    (void)a.send(driver.burst);
    const auto middle = Clock::now();
    while (b.received < a.sent && b.receive() > 0) {
    }
    receive_ns += ns_since(middle);
    send_ns += std::chrono::nanoseconds(middle - start).count();
  }
  const auto per_datagram = [&](std::int64_t ns) {
    return static_cast<double>(ns) / static_cast<double>(a.sent);
  };
  fmt::print(
      "{:<20} {:>6} B   send {:>7.1f} ns   receive {:>7.1f} ns   {} datagrams, hash {:016x}\n",
      driver.name, payload_bytes + kHeader, per_datagram(send_ns), per_datagram(receive_ns),
      b.received, b.hash);
  return a.sent == b.received;
}

bool throughput(const Driver& driver, std::uint32_t payload_bytes, std::uint64_t datagrams) {
  Side a(driver, payload_bytes);
  Side b(driver, payload_bytes);
  a.connect(b);
  const std::uint64_t window = b.nic->caps().receive_bytes / (payload_bytes + kHeader) / 2;
  std::atomic<std::uint64_t> received{0};
  // A lost datagram would stall both threads. Both give up after this long.
  constexpr std::int64_t kPatienceNs = 5'000'000'000;
  std::atomic<bool> stalled{false};
  const auto start = Clock::now();
  std::thread receiver([&] {
    auto last = Clock::now();
    while (b.received < datagrams) {
      if (b.receive() > 0) {
        received.store(b.received, std::memory_order_release);
        last = Clock::now();
      } else {
        std::this_thread::yield();
        if (ns_since(last) > kPatienceNs) stalled = true;
      }
      if (stalled) return;
    }
  });
  while (a.sent < datagrams && !stalled) {
    const std::uint64_t in_flight = a.sent - received.load(std::memory_order_acquire);
    const std::uint64_t room = window > in_flight ? window - in_flight : 0;
    const std::uint64_t count = std::min<std::uint64_t>(driver.burst, datagrams - a.sent);
    if (room < count || a.send(count) == 0) std::this_thread::yield();
  }
  receiver.join();
  const auto ns = static_cast<double>(ns_since(start));
  const double bytes = static_cast<double>(b.received) * (payload_bytes + kHeader);
  fmt::print(
      "{:<20} {:>6} B   two threads {:>6.2f} GB/s   {:>7.1f} ns   {} datagrams, hash {:016x}\n",
      driver.name, payload_bytes + kHeader, bytes / ns, ns / static_cast<double>(b.received),
      b.received, b.hash);
  return a.sent == b.received && b.nic->overruns() == 0;
}

}  // namespace

int main(int argc, char** argv) {
  const bool is_short = argc > 1 && std::string_view(argv[1]) == "--short";
  bool whole = true;
  try {
    for (const Driver& driver : drivers()) {
      const std::uint64_t datagrams = (is_short ? 10u : 150u) * 15 * 32;
      for (const std::uint32_t payload : {64u, 4096u}) {
        whole &= cost(driver, payload, datagrams);
      }
      whole &= throughput(driver, 4096, 4 * datagrams);
    }
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  if (!whole) fmt::print(stderr, "datagrams were lost\n");
  return whole ? 0 : 1;
}
