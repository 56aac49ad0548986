// SPDX-License-Identifier: Apache-2.0
// Endpoints close at any moment: during handshakes, floods, failures and new sessions, with limits
// of all sizes. Every operation ends, nothing is left, and no invariant breaks.
#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>

#include "test/protocol/packets.hpp"
#include "test/support/seeded.hpp"
#include "test/support/virtual_world.hpp"

namespace hawser::test {
namespace {

using proto::microseconds;
using proto::milliseconds;

WorldConfig any_config(proto::Random& random) {
  const auto one_of = [&random](std::initializer_list<std::uint64_t> values) {
    return values.begin()[random.below(values.size())];
  };
  WorldConfig config;
  config.nodes = static_cast<std::uint32_t>(2 + random.below(4));
  config.nics = static_cast<std::uint32_t>(1 + random.below(3));
  config.seed = random.next();
  const char* const faults[] = {"delay=5us", "delay=5us/30us,loss=0.1", "delay=5us,late-reap=2ms",
                                "delay=5us,duplicate=0.1,reorder=0.1",
                                "delay=5us,partial-burst=0.5"};
  config.faults = faults[random.below(std::size(faults))];
  Tunables& t = config.tunables;
  t.max_peers = one_of({2, 4, 16});
  t.max_operations = one_of({16, 100, 1000});
  t.max_receive_messages = one_of({16, 100, 1000});
  t.max_messages_per_peer = one_of({4, 100, 2048});
  t.max_in_flight_packets = one_of({64, 500, 4096});
  t.packet_buffers = one_of({256, 4096});
  t.unexpected_bytes = one_of({65536, 1 << 20});
  t.max_path_slots = one_of({1, 4, 16});
  t.peer_timeout_ms = one_of({20, 100, 1000});
  t.close_timeout_ms = one_of({5, 100});
  t.handshake_retry_us = one_of({500, 20000});
  t.max_outstanding_handshakes = one_of({1, 64});
  t.max_half_open_sessions = one_of({0, 1, 64});
  t.longest_absence_ms = one_of({0, 30});
  return config;
}

// Does one random thing. It ignores statuses: other tests check those.
void do_something(World& world, proto::Random& random, std::deque<std::string>& bytes) {
  const auto node = static_cast<std::uint32_t>(random.below(world.nodes()));
  const auto other =
      static_cast<std::uint32_t>((node + 1 + random.below(world.nodes() - 1)) % world.nodes());
  const auto peer = PeerId{static_cast<std::uint32_t>(random.below(4))};
  switch (random.below(random.chance(0.1) ? 7 : 4)) {
    case 0: {
      std::array<std::byte, proto::Endpoint::kMaxAddressBytes> blob;
      const std::size_t length = world.endpoint(other).write_address(blob);
      PeerId made{};
      (void)world.endpoint(node).connect(world.now(), std::span(blob).first(length), made);
      break;
    }
    case 1:
    case 2: {
      proto::SendRequest request;
      request.peer = peer;
      request.tag = random.below(3);
      request.bytes = random.chance(0.2) ? 200000 : random.below(9000);
      request.data =
          reinterpret_cast<const std::byte*>(bytes.emplace_back(request.bytes, 's').data());
      request.options.level = random.chance(0.5) ? Level::delivered : Level::accepted;
      (void)world.post(node, request);
      break;
    }
    case 3: {
      proto::ReceiveRequest request;
      request.peer = random.chance(0.3) ? kAnyPeer : peer;
      request.tag = random.below(3);
      request.bytes = random.below(9000);
      request.data = reinterpret_cast<std::byte*>(bytes.emplace_back(request.bytes, 'r').data());
      (void)world.post(node, request);
      break;
    }
    case 4: (void)world.endpoint(node).disconnect(world.now(), peer); break;
    case 5: world.apply(node, random.chance(0.5) ? "blackhole=both" : "blackhole=none"); break;
    default:
      (void)world.nic(node, static_cast<std::uint32_t>(random.below(world.nics(node))))
          .apply(random.chance(0.5) ? "kill:event" : "revive:moved");
      break;
  }
  world.wake(node);
}

TEST_CASE("closing_anytime__ends_everything") {
  for_each_seed(60, [](proto::Random& random) {
    const WorldConfig config = any_config(random);
    std::deque<std::string> bytes;
    World world(config);
    for (std::uint64_t steps = random.below(400); steps-- > 0;) {
      do_something(world, random, bytes);
      if (random.chance(0.4)) world.run_for(microseconds(random.below(300)));
      if (random.chance(0.01)) world.run_for(milliseconds(random.below(200)));
    }
    for (std::uint32_t node = 0; node < world.nodes(); ++node) {
      world.close(node);
      if (random.chance(0.3)) world.run_for(microseconds(random.below(5000)));
    }
    for (std::uint32_t node = 0; node < world.nodes(); ++node) {
      REQUIRE(world.run_until([&] { return world.endpoint(node).closed(); }, milliseconds(400)));
      CHECK(world.stats(node).operations_pending == 0);
      CHECK(world.stats(node).packets_in_flight == 0);
    }
    CHECK(world.allocations() == 0);
  });
}

}  // namespace
}  // namespace hawser::test
