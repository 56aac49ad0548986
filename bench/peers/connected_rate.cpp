// SPDX-License-Identifier: Apache-2.0
#include "bench/peers/connected_rate.hpp"

#include <algorithm>
#include <vector>

#include "bench/peers/fabric_world.hpp"
#include "proto/base/random.hpp"
#include "proto/wire/layout.hpp"
#include "sim/baseline/baseline_run.hpp"
#include "sim/baseline/named.hpp"

namespace hawser::bench {

namespace {

constexpr std::uint32_t kNext = 1;  // the trigger: one message has ended, another begins

fabric::ConnectionMatrix matrix(std::uint32_t peers, std::uint64_t messages, std::uint32_t bytes,
                                std::uint32_t under_way) {
  fabric::ConnectionMatrix matrix;
  matrix.nodes = peers + 1;
  proto::Random random(1);
  for (std::uint64_t i = 0; i < messages; ++i) {
    fabric::Connection one;
    one.to = static_cast<std::uint32_t>(1 + random.below(peers));
    one.bytes = bytes;
    one.when_sent = kNext;
    if (i >= under_way) one.trigger = kNext;
    matrix.connections.push_back(one);
  }
  fabric::Trigger next;
  next.id = kNext;
  next.kind = fabric::Trigger::Kind::multishot;
  matrix.triggers.push_back(next);
  return matrix;
}

}  // namespace

ConnectedRate connected_rate(std::uint32_t peers, std::uint64_t messages, std::uint32_t bytes,
                             std::uint32_t under_way, const baseline::ContextCache& cache) {
  const fabric::ConnectionMatrix flows = matrix(peers, messages, bytes, under_way);
  fabric::EventWheel events;
  fabric::Network network(events, FabricWorld::shape(peers + 1), 1, 128);
  baseline::Setup setup;
  const std::uint32_t outside = experiment::NicConfig{}.overhead_bytes;
  setup.sizes.overhead = outside + static_cast<std::uint32_t>(proto::wire::kDataHeaderBytes);
  setup.sizes.ack = outside + static_cast<std::uint32_t>(sizeof(proto::wire::CommonHeader));
  setup.cache = cache;
  baseline::BaselineRun run(events, network, flows, baseline::baseline("rc"), setup);
  ConnectedRate rate;
  rate.all = run.run(fabric::microseconds(10'000'000));
  fabric::Instant last;
  std::vector<bool> used(peers + 1);
  for (std::uint32_t i = 0; i < flows.connections.size(); ++i) {
    last = std::max(last, run.times(i).ended);
    used[flows.connections[i].to] = true;
  }
  rate.queue_pairs = static_cast<std::uint32_t>(std::ranges::count(used, true));
  rate.messages_per_s =
      static_cast<double>(messages) / (static_cast<double>((last - run.begun()).ps) * 1e-12);
  const baseline::QpCache& held = run.cache(network.wiring().port(0, 0));
  const double uses = static_cast<double>(held.hits() + held.misses());
  rate.misses_a_packet = uses > 0 ? static_cast<double>(held.misses()) / uses : 0;
  return rate;
}

}  // namespace hawser::bench
