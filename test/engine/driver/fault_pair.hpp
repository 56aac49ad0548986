// SPDX-License-Identifier: Apache-2.0
// Two fault NICs on a memory fabric, and what the tests of faults do with them.
#pragma once

#include <memory>
#include <string_view>

#include "engine/driver/fault/fault_nic.hpp"
#include "engine/driver/memory/memory_nic.hpp"
#include "test/engine/driver/nic_user.hpp"

namespace hawser::test {

using engine::Direction;
using engine::Fate;
using engine::FaultNic;
using engine::FaultNicConfig;
using engine::FaultPacket;

// The configuration of both NICs. A test mostly changes one side.
struct FaultPairConfig {
  FaultNicConfig a{};
  FaultNicConfig b{};
  engine::MemoryNicConfig memory{.needs_checksum = true};
};

class FaultPair {
 public:
  explicit FaultPair(FaultPairConfig config = {})
      : a(make(config.a, config.memory)), b(make(config.b, config.memory)), to_b(open(*a, *b)) {
    set_time(proto::Time{1'000'000});
  }

  SimplePool pool{1024};

 private:
  std::shared_ptr<engine::MemoryFabric> fabric_ = std::make_shared<engine::MemoryFabric>();

  std::unique_ptr<FaultNic> make(FaultNicConfig config, const engine::MemoryNicConfig& memory) {
    return std::make_unique<FaultNic>(std::make_unique<engine::MemoryNic>(fabric_, memory, pool),
                                      pool, std::move(config));
  }

 public:
  std::unique_ptr<FaultNic> a;
  std::unique_ptr<FaultNic> b;
  RemoteHandle to_b;
  proto::Time now{};

  void set_time(proto::Time time) {
    now = time;
    a->set_time(now);
    b->set_time(now);
  }
  void pass(proto::Duration time) { set_time(now + time); }

  void apply(FaultNic& nic, std::string_view spec) {
    const auto error = nic.apply(spec);
    if (error) FAIL(error->word << " " << error->reason);
  }

  // Sends datagrams `first` to `first + count - 1` from a to b in one burst and reaps. Returns how
  // many the NIC took.
  std::size_t send(std::uint64_t first, std::uint64_t count, Queue queue = Queue::data,
                   std::size_t payload_bytes = 100) {
    Burst burst(pool);
    for (std::uint64_t id = first; id < first + count; ++id) {
      burst.add({.id = id, .payload_bytes = payload_bytes, .remote = to_b, .queue = queue});
    }
    const std::size_t taken = burst.send(*a);
    burst.abandon();
    for (const std::uint64_t cookie : reap_all(*a)) cookies.push_back(cookie);
    burst.scribble();
    return taken;
  }
  // The numbers of the datagrams that b receives, in order; kDamaged for bytes that equal none of
  // the datagrams sent.
  static constexpr std::uint64_t kDamaged = ~std::uint64_t{0};
  std::vector<std::uint64_t> receive(Queue queue = Queue::data, std::uint64_t below = 1000,
                                     std::size_t payload_bytes = 100) {
    std::vector<std::uint64_t> ids;
    for (const auto& bytes : receive_all(*b, queue)) {
      std::uint64_t id = 0;
      while (id < below && bytes != datagram(id, 32 + payload_bytes)) ++id;
      ids.push_back(id < below ? id : kDamaged);
    }
    return ids;
  }
  std::vector<std::uint64_t> cookies;  // as send has reaped them
};

using Ids = std::vector<std::uint64_t>;

// Gives the packets of one direction and queue, counted from 0, the fates of `script`; a packet
// that isn't in it passes.
inline engine::FaultHook script(Direction direction, Queue queue,
                                std::vector<std::pair<std::uint64_t, Fate>> fates) {
  return [=, next = std::uint64_t{0}](const FaultPacket& packet) mutable -> std::optional<Fate> {
    if (packet.direction != direction || packet.queue != queue) return std::nullopt;
    const std::uint64_t number = next++;
    for (const auto& [which, fate] : fates) {
      if (which == number) return fate;
    }
    return Fate{};
  };
}

}  // namespace hawser::test
