// SPDX-License-Identifier: Apache-2.0
// From a seed to a plan. Each part draws from a generator of its own, so that a change in how one
// is drawn leaves the others of a seed as they were.
#include "sim/storm/draw.hpp"

namespace hawser::sim {
namespace {

using proto::Duration;
using proto::nanoseconds;
using proto::Random;

// ---- tunables

}  // namespace

proto::AllTunables small_world() {
  proto::AllTunables tunables;
  tunables.fragment_bytes = 4096;
  tunables.max_peers = 8;
  tunables.max_operations = 512;
  tunables.max_receive_messages = 512;
  tunables.max_in_flight_packets = 2048;
  tunables.packet_buffers = 2048;
  tunables.unexpected_bytes = 1 << 20;
  tunables.peer_timeout_ms = 1000;
  tunables.close_timeout_ms = 100;
  return tunables;
}

namespace {

// These are not drawn from their hostile extremes. Some size memory; some matter only to threads,
// sockets and RDMA devices; some are drawn elsewhere.
constexpr auto kNotDrawn = std::to_array<std::string_view>({"max_peers",
                                                            "unexpected_bytes",
                                                            "max_operations",
                                                            "packet_buffers",
                                                            "nic_receive_bytes",
                                                            "verbs_traffic_class",
                                                            "verbs_service_level",
                                                            "spin_us",
                                                            "yield_us",
                                                            "command_budget",
                                                            "peer_timeout_ms",
                                                            "close_timeout_ms",
                                                            "max_registrations",
                                                            "registration_cache_bytes",
                                                            "registration_cache_entries",
                                                            "registration_min_bytes",
                                                            "initial_sequence",
                                                            "handshake_retry_us",
                                                            "max_in_flight_packets",
                                                            "max_receive_messages",
                                                            "recovery_early"});

proto::AllTunables draw_tunables(Random& random) {
  proto::AllTunables tunables = small_world();
  const double share = random.chance(0.5) ? 0.1 : 0.4;
  const auto draw_one = [&](std::string_view name, std::uint64_t& value, std::uint64_t least,
                            std::uint64_t most) {
    if (std::ranges::find(kNotDrawn, name) != kNotDrawn.end()) return;
    if (!random.chance(share)) return;
    value = random.chance(0.3) ? least : logarithmic(random, least, most);
  };
  for (const TunableRow& row : kTunables) {
    draw_one(row.name, tunables.*row.field, row.hostile_low,
             std::min(row.hostile_high, row.default_value * 100 + 1));
  }
  for (const proto::MechanismRow& row : proto::kMechanisms) {
    draw_one(row.name, tunables.*row.field, row.least, 1);
  }
  const auto draw = [&](std::uint64_t& value, std::initializer_list<std::uint64_t> others) {
    if (random.chance(share)) value = one_of(random, others);
  };
  // A storm is about packets, not bytes.
  if (random.chance(0.85)) tunables.fragment_bytes = one_of(random, {256, 256, 512, 1024});
  draw(tunables.unexpected_bytes, {65536, 131072, 262144});
  draw(tunables.max_operations, {256, 1024});
  draw(tunables.packet_buffers, {256, 512});
  draw(tunables.max_in_flight_packets, {64, 256});
  draw(tunables.max_receive_messages, {16, 64, 128});
  draw(tunables.peer_timeout_ms, {400, 2500});
  draw(tunables.handshake_retry_us, {1000, 5000});
  // Just below where 32 bits on the wire wrap, where numbers are half of that away from 0, where
  // path numbers take a new generation, and where the tunable ends.
  if (random.chance(0.3)) {
    const std::uint64_t bits = one_of(random, {32, 32, 32, 31, 30, 40});
    tunables.initial_sequence = (std::uint64_t{1} << bits) - random.below(200);
  }
  return tunables;
}

// ---- topology

LinkConfig draw_cable(Random& random, bool unequal) {
  LinkConfig cable;
  cable.bytes_per_s = one_of(random, {1'000'000'000, 5'000'000'000, 12'500'000'000});
  if (unequal) cable.bytes_per_s /= one_of(random, {1, 1, 2, 10});
  cable.latency = nanoseconds(logarithmic(random, 200, 20000));
  cable.queue_bytes = one_of(random, {65536, 262144, 1 << 20});
  if (random.chance(0.5)) cable.mark_bytes = cable.queue_bytes / 4;
  return cable;
}

void draw_topology(Random& random, Plan& plan) {
  const std::uint32_t hosts = 2 + (random.chance(0.5) ? 0 : small(random, 4));
  const std::uint32_t rails = random.chance(0.2) ? 8 : 1 + small(random, 4);
  const bool unequal = random.chance(0.3);
  const bool equal_hosts = random.chance(0.6);
  const LinkConfig standard = draw_cable(random, false);
  enum { one_switch, a_switch_a_rail, leaves_and_spines };
  const std::uint64_t shape = random.below(3);
  std::uint32_t leaves = 1;
  if (shape == a_switch_a_rail) leaves = std::max(rails, 1u);
  if (shape == leaves_and_spines) leaves = 2 + small(random, 2);
  const std::uint32_t spines =
      shape == leaves_and_spines ? 1 + small(random, 3) : (leaves > 1 ? 1 : 0);
  plan.switches = leaves + spines;
  for (std::uint32_t leaf = 0; leaf < leaves; ++leaf) {
    for (std::uint32_t spine = 0; spine < spines; ++spine) {
      plan.cables.push_back({leaf, leaves + spine, draw_cable(random, unequal)});
    }
  }
  for (std::uint32_t i = 0; i < hosts; ++i) {
    HostPlan host;
    const std::uint32_t nics = equal_hosts ? rails : 1 + small(random, rails);
    for (std::uint32_t nic = 0; nic < nics; ++nic) {
      const std::uint32_t at = shape == a_switch_a_rail ? nic : i;
      host.nics.push_back({at % leaves, unequal ? draw_cable(random, true) : standard});
    }
    host.nic.max_datagram_bytes =
        static_cast<std::uint32_t>(one_of(random, {1500, 4096 + 128, 4096 + 128, 9000}));
    host.nic.burst = static_cast<std::uint32_t>(one_of(random, {1, 4, 15}));
    host.nic.entropies = static_cast<std::uint16_t>(one_of(random, {1, 4, 16}));
    host.nic.send_slots = static_cast<std::uint32_t>(one_of(random, {16, 128, 1024}));
    host.nic.data_slots = static_cast<std::uint32_t>(one_of(random, {32, 256, 1024}));
    host.nic.control_slots = static_cast<std::uint32_t>(one_of(random, {16, 256}));
    host.turn = nanoseconds(one_of(random, {300, 1000, 1000, 5000, 5000}));
    host.wake_up = nanoseconds(one_of(random, {0, 1000, 30000}));
    host.clock = nanoseconds(random.below(std::uint64_t{1} << 40));
    plan.hosts.push_back(std::move(host));
  }
}

}  // namespace

Plan draw_plan(std::uint64_t seed) {
  Plan plan;
  plan.seed = seed;
  Random parts(seed);
  Random tunables(parts.next());
  Random topology(parts.next());
  Random messages(parts.next());
  Random faults(parts.next());
  plan.tunables = draw_tunables(tunables);
  plan.has_secret = tunables.chance(0.3);
  if (tunables.chance(0.1)) plan.tunables.recovery_early = 0;  // last: seeds keep their plans
  draw_topology(topology, plan);
  draw_traffic(messages, plan);
  draw_faults(faults, plan);
  Random extremes(parts.next());
  draw_crossed(extremes, plan);
  draw_flood(extremes, plan);
  draw_stragglers(extremes, plan);
  for (const FaultPlan& fault : plan.faults) {
    plan.heals_at = std::max(plan.heals_at, fault.at + fault.lasts);
  }
  Random closings(parts.next());
  draw_closings(closings, plan);
  Random more(parts.next());
  draw_more(more, plan);
  // Without any fault the judge has no excuse to accept.
  Random calm(parts.next());
  const bool is_calm = calm.chance(0.04);
  if (is_calm) plan.faults.clear();
  Random ways(parts.next());
  if (!is_calm) draw_ways(ways, plan);
  Random networks(parts.next());
  draw_networks(networks, plan);
  Random standing(parts.next());
  if (!is_calm) draw_standing(standing, plan);
  Random partners(parts.next());
  if (has_partners(seed)) draw_partners(partners, plan);
  Random narrow(parts.next());
  Random epochs(parts.next());
  if (seed >= kFirstOfEpochs && !is_calm) {
    draw_narrow(narrow, plan);
    draw_epochs(epochs, plan);
  }
  Random one_sided(parts.next());
  Random pieces(parts.next());
  if (seed >= kFirstOfOneSided) {
    draw_one_sided(one_sided, plan);
    draw_pieces(pieces, plan);
  }
  Random changing(parts.next());
  if (seed >= kFirstOfEpochs && seed < kFirstOfOneSided && !is_calm)
    draw_changing_ways(changing, plan);
  Random chained(parts.next());
  if (seed >= kFirstOfOneSided) draw_chained_words(chained, plan);
  return plan;
}

}  // namespace hawser::sim
