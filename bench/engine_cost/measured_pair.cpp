// SPDX-License-Identifier: Apache-2.0
#include "bench/engine_cost/measured_pair.hpp"

#include <array>
#include <chrono>
#include <memory>
#include <vector>

#include "bench/engine_cost/passing_nic.hpp"
#include "engine/driver/memory/memory_nic.hpp"
#include "engine/packet_pool.hpp"
#include "proto/base/assert.hpp"
#include "proto/endpoint.hpp"

namespace hawser::bench {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::uint32_t kOperations = 4096;
constexpr std::size_t kPacketBuffers = 16384;
constexpr std::size_t kShort = 4096;  // bytes of a message from which on the unit is a packet

proto::Time clock_now() {
  return {std::chrono::nanoseconds(Clock::now().time_since_epoch()).count()};
}

std::unique_ptr<engine::EndpointPool> make_pool(bool mempool) {
  if (mempool) return std::make_unique<engine::MempoolPacketPool>(kPacketBuffers);
  return std::make_unique<engine::StackPacketPool>(kPacketBuffers);
}

void count_record(void* count, const TraceRecord&) { ++*static_cast<std::uint64_t*>(count); }

struct Side {
  Side(const PairConfig& what, const std::shared_ptr<engine::MemoryFabric>& fabric,
       std::uint8_t number)
      : pool(make_pool(what.mempool)), own_time(what.own_time) {
    for (std::uint8_t i = 0; i < what.nics; ++i) {
      if (what.passing) {
        const auto nic = static_cast<std::uint8_t>(number * proto::Endpoint::kMaxNics + i);
        passing.push_back(std::make_unique<PassingNic>(nic, *pool));
        nics.push_back(passing.back().get());
      } else {
        memory.push_back(
            std::make_unique<engine::MemoryNic>(fabric, engine::MemoryNicConfig{}, *pool));
        nics.push_back(memory.back().get());
      }
    }
    proto::EndpointConfig config;
    config.endpoint_id = config.seed = number;
    config.epoch = 1;
    if (what.unpacked) config.tunables.pack_messages = 0;
    if (what.traced) config.trace = count_record;
    config.trace_context = &records;
    endpoint = std::make_unique<proto::Endpoint>(config, nics, *pool);
  }
  void connect(const Side& other) {
    std::array<std::byte, proto::Endpoint::kMaxAddressBytes> blob;
    const std::size_t bytes = other.endpoint->write_address(blob);
    HAWSER_ASSERT(endpoint->connect(now(), std::span(blob).first(bytes), peer) == Status::ok);
  }

  std::unique_ptr<engine::EndpointPool> pool;
  std::vector<std::unique_ptr<PassingNic>> passing;
  std::vector<std::unique_ptr<engine::MemoryNic>> memory;
  std::vector<proto::Nic*> nics;
  std::uint64_t records = 0;
  std::unique_ptr<proto::Endpoint> endpoint;
  PeerId peer{};
  std::uint64_t begun = 0;  // operations
  std::uint64_t done = 0;
  std::int64_t spent_ns = 0;
  bool own_time = false;
  proto::Time time{1'000'000};

  [[nodiscard]] proto::Time now() {
    return own_time ? time = time + proto::microseconds(1) : clock_now();
  }
};

struct Buffers {
  Buffers(const Load& load, int pattern) : bytes(load.message_bytes), count(load.buffers) {
    all.resize(bytes * count);
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i] = static_cast<std::byte>(static_cast<int>(i) * pattern);
    }
  }
  [[nodiscard]] std::byte* at(std::uint64_t message) {
    return all.data() + message % count * bytes;
  }
  std::vector<std::byte> all;
  std::size_t bytes;
  std::size_t count;
};

// valgrind collects inside the functions measured_*: the calls, the turns and the loops around
// them.
[[gnu::noinline]] void measured_send(Side& side, const Load& load, Buffers& from,
                                     std::uint64_t most) {
  std::array<Completion, 64> completions;
  const proto::Time begin = side.now();
  for (; side.begun < most; ++side.begun) {
    proto::SendRequest request;
    request.operation = OperationId{side.begun % kOperations};
    request.peer = side.peer;
    request.data = from.at(side.begun);
    request.bytes = load.message_bytes;
    HAWSER_ASSERT(side.endpoint->send(begin, request) == Status::ok);
  }
  (void)side.endpoint->turn(begin);
  side.done += side.endpoint->poll_completions(completions);
  side.spent_ns += (side.now() - begin).ns;
}

[[gnu::noinline]] void measured_receive(Side& side, const Load& load, Buffers& to,
                                        std::uint64_t most) {
  std::array<Completion, 64> completions;
  const proto::Time begin = side.now();
  for (; side.begun < most; ++side.begun) {
    proto::ReceiveRequest request;
    request.operation = OperationId{side.begun % kOperations};
    request.peer = side.peer;
    request.data = load.copy ? to.at(side.begun) : nullptr;
    request.bytes = load.copy ? load.message_bytes : 0;
    HAWSER_ASSERT(side.endpoint->receive(begin, request) == Status::ok);
  }
  (void)side.endpoint->turn(begin);
  side.done += side.endpoint->poll_completions(completions);
  side.spent_ns += (side.now() - begin).ns;
}

}  // namespace

struct MeasuredPair::Sides {
  explicit Sides(const PairConfig& config)
      : fabric(config.passing ? nullptr : std::make_shared<engine::MemoryFabric>()),
        a(config, fabric, 1),
        b(config, fabric, 2) {}
  std::shared_ptr<engine::MemoryFabric> fabric;
  Side a;
  Side b;
};

MeasuredPair::MeasuredPair(const PairConfig& config) : sides_(std::make_unique<Sides>(config)) {
  Side& a = sides_->a;
  Side& b = sides_->b;
  for (std::size_t i = 0; i < a.passing.size(); ++i) {
    a.passing[i]->join(*b.passing[i]);
    b.passing[i]->join(*a.passing[i]);
  }
  a.connect(b);
  b.connect(a);
}

MeasuredPair::~MeasuredPair() = default;

Measured MeasuredPair::measure(const Load& load) {
  Side& a = sides_->a;
  Side& b = sides_->b;
  Buffers from(load, 31);
  Buffers to(load, 0);
  const std::uint64_t begin = b.done;
  const std::uint64_t warm = begin + load.messages / 5 + 1;
  const std::uint64_t end = begin + load.messages;
  const auto units = [&] {
    const EndpointStats stats = a.endpoint->stats();
    return load.message_bytes < kShort ? stats.messages_sent : stats.data_packets_sent;
  };
  std::uint64_t before = 0;
  while (b.done < end || a.done < end) {
    measured_receive(b, load, to, std::min(end, b.done + load.window));
    measured_send(a, load, from, std::min(b.begun, a.done + load.window));
    if (before == 0 && b.done >= warm) {
      before = units();
      a.spent_ns = b.spent_ns = 0;
    }
  }
  HAWSER_ASSERT(a.endpoint->stats().fragments_retransmitted == 0, "nothing is lost here");
  Measured result;
  result.all_units = units();
  result.units = result.all_units - before;
  result.send_ns = static_cast<double>(a.spent_ns) / static_cast<double>(result.units);
  result.receive_ns = static_cast<double>(b.spent_ns) / static_cast<double>(result.units);
  for (const std::byte byte : to.all) {
    result.hash = (result.hash ^ static_cast<std::uint64_t>(byte)) * 1099511628211u;
  }
  return result;
}

}  // namespace hawser::bench
