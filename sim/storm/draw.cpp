// From a seed to a plan. Each part draws from a generator of its own, so that a change in how one
// is drawn leaves the others of a seed as they were.
#include <algorithm>
#include <initializer_list>

#include "proto/random.hpp"
#include "sim/storm/plan.hpp"

namespace hawser::sim {
namespace {

using proto::Duration;
using proto::microseconds;
using proto::milliseconds;
using proto::nanoseconds;
using proto::Random;

std::uint64_t one_of(Random& random, std::initializer_list<std::uint64_t> values) {
  return values.begin()[random.below(values.size())];
}

std::uint32_t small(Random& random, std::uint64_t n) {
  return static_cast<std::uint32_t>(random.below(n));
}

// Between the two, each order of magnitude as likely as any other.
std::uint64_t logarithmic(Random& random, std::uint64_t low, std::uint64_t high) {
  std::uint64_t top = low;
  for (std::uint64_t steps = random.below(64); steps-- > 0 && top < high;) top = top * 2 + 1;
  top = std::min(top, high);
  return low + random.below(top - low + 1);
}

// ---- tunables

}  // namespace

Tunables small_world() {
  Tunables tunables;
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

// Not drawn from their hostile extremes: what sizes memory, what only threads and sockets know, and
// what is drawn beside them.
constexpr auto kNotDrawn = std::to_array<std::string_view>(
    {"max_peers", "unexpected_bytes", "max_operations", "packet_buffers", "nic_receive_bytes",
     "spin_us", "yield_us", "command_budget", "peer_timeout_ms", "close_timeout_ms",
     "initial_sequence", "handshake_retry_us", "max_in_flight_packets", "max_receive_messages"});

Tunables draw_tunables(Random& random) {
  Tunables tunables = small_world();
  const double share = random.chance(0.5) ? 0.1 : 0.4;
  for (const TunableRow& row : kTunables) {
    if (std::ranges::find(kNotDrawn, row.name) != kNotDrawn.end()) continue;
    if (!random.chance(share)) continue;
    const std::uint64_t most = std::min(row.hostile_high, row.default_value * 100 + 1);
    tunables.*row.field =
        random.chance(0.3) ? row.hostile_low : logarithmic(random, row.hostile_low, most);
  }
  const auto draw = [&](std::uint64_t& value, std::initializer_list<std::uint64_t> others) {
    if (random.chance(share)) value = one_of(random, others);
  };
  if (random.chance(0.5)) tunables.fragment_bytes = one_of(random, {256, 512, 1024});
  draw(tunables.unexpected_bytes, {65536, 131072, 262144});
  draw(tunables.max_operations, {256, 1024});
  draw(tunables.packet_buffers, {256, 512});
  draw(tunables.max_in_flight_packets, {64, 256});
  draw(tunables.max_receive_messages, {16, 64, 128});
  draw(tunables.peer_timeout_ms, {400, 2500});
  draw(tunables.handshake_retry_us, {1000, 5000});
  // Just below where 32 bits on the wire wrap.
  if (random.chance(0.3)) tunables.initial_sequence = (std::uint64_t{1} << 32) - random.below(200);
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
  const std::uint32_t rails = random.chance(0.25) ? 8 : 1 + small(random, 4);
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
    host.turn = nanoseconds(one_of(random, {300, 1000, 5000}));
    host.wake_up = nanoseconds(one_of(random, {0, 1000, 30000}));
    host.clock = nanoseconds(random.below(std::uint64_t{1} << 40));
    plan.hosts.push_back(std::move(host));
  }
}

// ---- messages and receives

// In fragments rather than bytes: packets are what a storm is made of.
std::uint64_t draw_bytes(Random& random, std::uint64_t fragment) {
  switch (random.below(8)) {
    case 0: return 0;
    case 1: return 1 + random.below(64);
    case 2: return fragment - 1 + random.below(3);
    case 3: return fragment * (1 + random.below(20)) + random.below(3) - 1;
    case 4: return random.below(fragment * 60);
    case 5: return random.below(fragment * 160);
    case 6: return random.chance(0.05) ? 1'000'000 + random.below(3'000'000) : random.below(30000);
    default: return random.below(fragment * 5);
  }
}

Duration some_time(Random& random, Duration most) {
  return nanoseconds(random.below(static_cast<std::uint64_t>(most.ns) + 1));
}

void draw_message(Random& random, Plan& plan, Duration span) {
  const auto hosts = static_cast<std::uint32_t>(plan.hosts.size());
  MessagePlan message;
  message.at = some_time(random, span);
  message.from = small(random, hosts);
  message.to = (message.from + 1 + small(random, hosts - 1)) % hosts;
  message.context = static_cast<std::uint16_t>(random.below(2));
  message.tag = random.below(4);
  message.bytes = draw_bytes(random, plan.tunables.fragment_bytes);
  if (random.chance(0.3)) message.level = Level::delivered;
  message.hint.priority = static_cast<std::uint8_t>(random.chance(0.2) ? random.below(4) : 0);
  if (random.chance(0.05)) message.cancelled_after = some_time(random, microseconds(500));
  plan.messages.push_back(message);

  // A receive that fits it, before or after; sometimes none, or one that fits others too.
  if (random.chance(0.1)) return;
  ReceivePlan receive;
  const Duration shift = some_time(random, milliseconds(random.chance(0.2) ? 20 : 1));
  const bool early = random.chance(0.5) && message.at > shift;
  receive.at = early ? message.at - shift : message.at + shift;
  receive.host = message.to;
  receive.context = message.context;
  receive.tag = message.tag;
  receive.from = random.chance(0.3) ? kAnyHost : message.from;
  if (random.chance(0.2)) receive.mask = random.below(4);
  receive.bytes = message.bytes;
  if (random.chance(0.15)) receive.bytes = random.below(message.bytes + 1);
  if (random.chance(0.15)) receive.bytes = message.bytes * 2 + 1;
  receive.claims = random.chance(0.1);
  receive.puts_back = !receive.claims && random.chance(0.03);
  if (random.chance(0.07)) receive.cancelled_after = some_time(random, milliseconds(2));
  plan.receives.push_back(receive);
}

// A ring, in lock-step: what a collective does with the protocol's hints. A message of step s is
// sent when that of step s-1 has come; the application knows that by its tag.
void draw_ring(Random& random, Plan& plan, Duration span) {
  const auto hosts = static_cast<std::uint32_t>(plan.hosts.size());
  const Duration at = some_time(random, span / 2);
  const std::uint64_t bytes = draw_bytes(random, plan.tunables.fragment_bytes);
  const auto group = static_cast<std::uint32_t>(1 + random.below(1000));
  const auto steps = static_cast<std::uint16_t>(2 * (hosts - 1));
  for (std::uint16_t step = 0; step < steps; ++step) {
    for (std::uint32_t host = 0; host < hosts; ++host) {
      MessagePlan message;
      message.at = at + nanoseconds(std::uint64_t{50000} * step);
      message.from = host;
      message.to = (host + 1) % hosts;
      message.context = kCollectiveContext;
      message.tag = std::uint64_t{group} << 16 | step;
      message.bytes = bytes;
      message.hint.group = group + step;
      message.hint.members = 1;
      message.hint.step = step;
      message.hint.steps = steps;
      message.hint.collective = Collective::all_reduce;
      plan.messages.push_back(message);
      ReceivePlan receive;
      receive.at = at;
      receive.host = message.to;
      receive.from = host;
      receive.context = message.context;
      receive.tag = message.tag;
      receive.bytes = bytes;
      plan.receives.push_back(receive);
    }
  }
}

// ---- faults

FaultPlan draw_fault(Random& random, const Plan& plan, FaultKind kind) {
  const auto hosts = static_cast<std::uint32_t>(plan.hosts.size());
  FaultPlan fault;
  fault.kind = kind;
  fault.at = some_time(random, plan.heals_at * 9 / 10);
  fault.lasts = nanoseconds(logarithmic(random, 20000, 200'000'000));
  fault.host = small(random, hosts);
  fault.nic = small(random, plan.hosts[fault.host].nics.size());
  fault.other_host = (fault.host + 1 + small(random, hosts - 1)) % hosts;
  fault.other_nic = small(random, plan.hosts[fault.other_host].nics.size());
  const Duration timeout = milliseconds(plan.tunables.peer_timeout_ms);
  switch (kind) {
    case FaultKind::loss: fault.amount = random.chance(0.2) ? 0.3 : 0.02; break;
    case FaultKind::burst_loss:
      fault.amount = 0.002 + 0.02 / static_cast<double>(1 + random.below(4));
      break;
    case FaultKind::duplicate:
    case FaultKind::partial_bursts: fault.amount = random.chance(0.3) ? 0.5 : 0.05; break;
    case FaultKind::reorder:
    case FaultKind::spike:
      fault.amount = kind == FaultKind::spike ? 0.002 : 0.1;
      fault.delay = nanoseconds(logarithmic(random, 1000, 5'000'000));
      break;
    case FaultKind::corrupt:
    case FaultKind::truncate: fault.amount = random.chance(0.2) ? 0.2 : 0.01; break;
    case FaultKind::slow: fault.amount = random.chance(0.3) ? 1000 : 10; break;
    case FaultKind::flap:
      if (!plan.cables.empty() && random.chance(0.7)) {
        fault.other_host = small(random, plan.cables.size());
        fault.amount = 1;  // a cable between switches
      }
      break;
    case FaultKind::partition:
      if (random.chance(0.5)) fault.lasts = timeout + timeout / 2;
      break;
    case FaultKind::pause:
      fault.lasts = nanoseconds(logarithmic(random, 50000, 100'000'000));
      break;
    case FaultKind::absence: fault.lasts = timeout * 2; break;
    case FaultKind::clock_jump:
    case FaultKind::late_host:
    case FaultKind::reaps_late:
      fault.delay = nanoseconds(logarithmic(random, 10000, 20'000'000));
      break;
    default: break;
  }
  return fault;
}

// Those that end sessions, so that not every run loses most of its messages that way.
bool is_grave(FaultKind kind) {
  return kind == FaultKind::partition || kind == FaultKind::absence || kind == FaultKind::crash ||
         kind == FaultKind::restart;
}

void draw_faults(Random& random, Plan& plan) {
  const std::uint64_t count = 5 + random.below(12);
  while (plan.faults.size() < count) {
    const auto kind = static_cast<FaultKind>(random.below(kFaultKinds));
    if (is_grave(kind) && !random.chance(0.35)) continue;
    plan.faults.push_back(draw_fault(random, plan, kind));
  }
}

// Some say that they may be away for long, and are: longer than others wait for who says nothing.
void draw_absences(Random& random, Plan& plan) {
  if (!random.chance(0.2)) return;
  Tunables& tunables = plan.tunables;
  tunables.longest_absence_ms = one_of(random, {300, 1000});
  for (FaultPlan& fault : plan.faults) {
    if (fault.kind != FaultKind::absence || random.chance(0.3)) continue;
    fault.lasts = milliseconds(tunables.peer_timeout_ms + tunables.longest_absence_ms / 4);
  }
}

// Of one host only this NIC lives and of another one only that, for longer than anybody waits: they
// may never have been bound to each other.
void draw_crossed(Random& random, Plan& plan) {
  if (!random.chance(0.08)) return;
  FaultPlan fault;
  fault.kind = FaultKind::all_but_one;
  fault.at = some_time(random, plan.heals_at / 4);
  fault.lasts = milliseconds(plan.tunables.peer_timeout_ms + plan.tunables.longest_absence_ms) * 2;
  const std::uint32_t host = small(random, plan.hosts.size());
  for (const std::uint32_t i : {host, (host + 1) % static_cast<std::uint32_t>(plan.hosts.size())}) {
    fault.host = i;
    fault.nic = small(random, plan.hosts[i].nics.size());
    plan.faults.push_back(fault);
  }
}

// More small messages than there are descriptors for those that nobody wants yet.
void draw_flood(Random& random, Plan& plan) {
  if (!random.chance(0.1)) return;
  plan.tunables.max_receive_messages = 16;
  const auto hosts = static_cast<std::uint32_t>(plan.hosts.size());
  MessagePlan message;
  message.to = small(random, hosts);
  message.context = 1;
  const Duration at = some_time(random, plan.heals_at / 2);
  for (std::uint64_t count = 30 + random.below(50); count > 0; --count) {
    message.at = at + some_time(random, milliseconds(1));
    message.from = (message.to + 1 + small(random, hosts - 1)) % hosts;
    message.tag = 16 + random.below(2);
    message.bytes = random.below(3000);
    plan.messages.push_back(message);
    if (!random.chance(0.3)) continue;
    ReceivePlan receive;
    receive.at = message.at + some_time(random, milliseconds(5));
    receive.host = message.to;
    receive.from = random.chance(0.5) ? kAnyHost : message.from;
    receive.context = message.context;
    receive.tag = message.tag;
    receive.bytes = 3000;
    plan.receives.push_back(receive);
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
  draw_topology(topology, plan);
  const Duration span = milliseconds(2 + messages.below(40));
  plan.heals_at = span + milliseconds(messages.below(20));
  const std::uint64_t count = 20 + messages.below(100);
  while (plan.messages.size() < count) draw_message(messages, plan, span);
  if (messages.chance(0.4)) draw_ring(messages, plan, span);
  draw_faults(faults, plan);
  Random absences(parts.next());
  draw_absences(absences, plan);
  Random extremes(parts.next());
  draw_crossed(extremes, plan);
  draw_flood(extremes, plan);
  for (const FaultPlan& fault : plan.faults) {
    plan.heals_at = std::max(plan.heals_at, fault.at + fault.lasts);
  }
  return plan;
}

}  // namespace hawser::sim
