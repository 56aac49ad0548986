// SPDX-License-Identifier: Apache-2.0
// Faults of a plan.
#include "sim/storm/draw.hpp"

namespace hawser::sim {

using proto::Duration;
using proto::microseconds;
using proto::milliseconds;
using proto::nanoseconds;
using proto::Random;

// Draws when, where and for how long a fault acts.
FaultPlan draw_place(Random& random, const Plan& plan) {
  const auto hosts = static_cast<std::uint32_t>(plan.hosts.size());
  FaultPlan fault;
  fault.at = some_time(random, plan.heals_at * 9 / 10);
  fault.lasts = nanoseconds(logarithmic(random, 20000, 200'000'000));
  fault.host = small(random, hosts);
  fault.nic = small(random, plan.hosts[fault.host].nics.size());
  fault.other_host = (fault.host + 1 + small(random, hosts - 1)) % hosts;
  fault.other_nic = small(random, plan.hosts[fault.other_host].nics.size());
  return fault;
}

namespace {

// ---- faults

FaultPlan draw_fault(Random& random, const Plan& plan, FaultKind kind) {
  FaultPlan fault = draw_place(random, plan);
  fault.kind = kind;
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
    case FaultKind::straggle:
      fault.amount = random.chance(0.3) ? 0.3 : 0.01;
      fault.delay = nanoseconds(logarithmic(random, 20'000'000, 330'000'000));
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
    case FaultKind::overrun: fault.amount = static_cast<double>(1 + random.below(8)); break;
    case FaultKind::clock_jump:
    case FaultKind::late_host:
    case FaultKind::reaps_late:
      fault.delay = nanoseconds(logarithmic(random, 10000, 20'000'000));
      break;
    default: break;
  }
  return fault;
}

// Kinds that end sessions. They are drawn more seldom, so that not every run loses most of its
// messages that way.
bool is_grave(FaultKind kind) {
  return kind == FaultKind::partition || kind == FaultKind::absence || kind == FaultKind::crash ||
         kind == FaultKind::restart;
}

// The same fault again and again, until its time is over.
void draw_flapping(Random& random, Plan& plan) {
  FaultPlan fault = plan.faults.back();
  for (std::uint64_t more = random.below(5); more > 0; --more) {
    fault.at = fault.at + fault.lasts + nanoseconds(logarithmic(random, 20000, 20'000'000));
    plan.faults.push_back(fault);
  }
}

}  // namespace

void draw_faults(Random& random, Plan& plan) {
  const std::uint64_t count = 5 + random.below(12);
  while (plan.faults.size() < count) {
    const auto kind =
        static_cast<FaultKind>(random.below(static_cast<std::uint64_t>(kFirstIntruder)));
    if (is_grave(kind) && !random.chance(0.35)) continue;
    if (kind == FaultKind::announced) {
      if (random.chance(0.5)) continue;
      std::uint64_t& longest = plan.tunables.longest_absence_ms;
      if (longest < 300) longest = one_of(random, {300, 1000});
    }
    plan.faults.push_back(draw_fault(random, plan, kind));
    if (kind == FaultKind::flap) draw_flapping(random, plan);
  }
  // An announced absence lasts longer than others would wait without the announcement. Another
  // absence lasts longer than they would wait even with one.
  const Tunables& t = plan.tunables;
  for (FaultPlan& fault : plan.faults) {
    if (fault.kind == FaultKind::announced) {
      fault.lasts = milliseconds(t.peer_timeout_ms + t.longest_absence_ms / 4);
    } else if (fault.kind == FaultKind::absence) {
      fault.lasts = milliseconds(t.peer_timeout_ms + t.longest_absence_ms) * 2;
    }
  }
}

// Frames that arrive in a changed world. Their process, or their NICs, have been replaced twice:
// the process was started again, or the NICs have moved. Session handshakes may be among these
// frames. Messages follow when all of them have arrived.
void draw_stragglers(Random& random, Plan& plan) {
  if (!random.chance(0.15)) return;
  const auto hosts = static_cast<std::uint32_t>(plan.hosts.size());
  FaultPlan late;
  late.kind = FaultKind::straggle;
  late.at = some_time(random, plan.heals_at / 2);
  late.lasts = milliseconds(2 + random.below(20));
  late.host = small(random, hosts);
  late.amount = 0.3;
  late.delay = milliseconds(10 + random.below(50));
  plan.faults.push_back(late);
  FaultPlan fault = late;
  const bool moves = random.chance(0.5);
  const std::size_t nics = moves ? plan.hosts[late.host].nics.size() : 1;
  fault.kind = moves ? FaultKind::nic_moves : FaultKind::restart;
  for (int times = 0; times < 2; ++times) {
    fault.at = fault.at + microseconds(500 + random.below(2000));
    fault.lasts = microseconds(100 + random.below(1000));
    for (fault.nic = 0; fault.nic < nics; ++fault.nic) plan.faults.push_back(fault);
    fault.at = fault.at + fault.lasts;
  }
  for (int i = 0; i < 10; ++i) {
    MessagePlan message;
    message.at = late.at + late.lasts + late.delay * 2 + some_time(random, milliseconds(20));
    message.from = (late.host + 1 + small(random, hosts - 1)) % hosts;
    message.to = late.host;
    if (random.chance(0.5)) std::swap(message.from, message.to);
    message.bytes = random.below(3000);
    plan.messages.push_back(message);
  }
}

// On each of two hosts only one NIC lives, for longer than any peer waits. No path may ever have
// been bound to this pair of NICs.
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

}  // namespace hawser::sim
