// SPDX-License-Identifier: Apache-2.0
// The stranger parts of a plan: intruders, callers that make mistakes, held claims, groups of many
// messages, small limits.
#include "sim/storm/draw.hpp"

namespace hawser::sim {

namespace {

using proto::Duration;
using proto::microseconds;
using proto::milliseconds;
using proto::nanoseconds;
using proto::Random;

constexpr std::uint32_t kSmallDatagram = 512;
constexpr std::size_t kMostNicsOfSmall = 7;
// The calls from this kind on are drawn only where there is a reason for them.
constexpr auto kCommonCalls = static_cast<std::uint64_t>(CallKind::old_name);

void draw_intruder(Random& random, Plan& plan) {
  for (auto kind = kFirstIntruder; kind <= FaultKind::no_buffers;
       kind = static_cast<FaultKind>(static_cast<int>(kind) + 1)) {
    if (!random.chance(0.08)) continue;
    for (std::uint64_t count = 1 + random.below(3); count > 0; --count) {
      FaultPlan fault = draw_place(random, plan);
      fault.kind = kind;
      if (kind == FaultKind::garbled || kind == FaultKind::forged) {
        fault.lasts = nanoseconds(logarithmic(random, 1'000'000, 200'000'000));
        fault.amount = random.chance(0.3) ? 0.3 : 0.02;
      }
      if (kind == FaultKind::strangers)
        fault.amount = static_cast<double>(logarithmic(random, 1, 100));
      if (kind == FaultKind::no_buffers) {
        fault.lasts = nanoseconds(logarithmic(random, 20000, 20'000'000));
      }
      // Often from the beginning, when all sessions are new.
      if (random.chance(0.3)) fault.at = some_time(random, milliseconds(1));
      plan.faults.push_back(fault);
      plan.heals_at = std::max(plan.heals_at, fault.at + fault.lasts);
    }
  }
}

// A host closes while an intruder forges its packets, strangers call, or its buffers run out.
void draw_bad_parting(Random& random, Plan& plan) {
  const auto closes = std::ranges::find(plan.closings, kAnyHost, &ClosingPlan::other);
  if (closes == plan.closings.end() || !random.chance(0.4)) return;
  const auto hosts = static_cast<std::uint32_t>(plan.hosts.size());
  for (const FaultKind kind : {FaultKind::forged, FaultKind::strangers, FaultKind::no_buffers}) {
    if (!random.chance(0.4)) continue;
    FaultPlan fault;
    fault.kind = kind;
    fault.at = std::max(closes->at - microseconds(random.below(500)), Duration{});
    fault.lasts =
        kind == FaultKind::no_buffers ? microseconds(random.below(2000)) : milliseconds(5);
    fault.amount = kind == FaultKind::strangers ? 10 : 0.5;
    fault.host =
        kind == FaultKind::forged && random.chance(0.3) ? small(random, hosts) : closes->host;
    fault.other_host = (fault.host + 1 + small(random, hosts - 1)) % hosts;
    fault.other_nic = small(random, plan.hosts[fault.other_host].nics.size());
    const std::size_t nics = kind == FaultKind::forged ? plan.hosts[fault.host].nics.size() : 1;
    for (fault.nic = 0; fault.nic < nics; ++fault.nic) plan.faults.push_back(fault);
    plan.heals_at = std::max(plan.heals_at, fault.at + fault.lasts);
  }
}

// A message of so many fragments that the bitmap of received ones spans several words, while some
// are lost.
void draw_long_message(Random& random, Plan& plan) {
  if (!random.chance(0.05)) return;
  const auto hosts = static_cast<std::uint32_t>(plan.hosts.size());
  MessagePlan message;
  message.at = some_time(random, plan.heals_at / 2);
  message.from = small(random, hosts);
  message.to = (message.from + 1 + small(random, hosts - 1)) % hosts;
  message.tag = 30;
  message.bytes = plan.tunables.fragment_bytes * (600 + random.below(2000));
  add_with_receive(plan, message);
  FaultPlan fault;
  fault.kind = FaultKind::loss;
  fault.host = message.from;
  fault.at = message.at;
  fault.lasts = milliseconds(10);
  fault.amount = 0.05;
  plan.faults.push_back(fault);
  plan.heals_at = std::max(plan.heals_at, fault.at + fault.lasts);
}

void draw_calls(Random& random, Plan& plan) {
  const auto hosts = static_cast<std::uint32_t>(plan.hosts.size());
  for (std::uint64_t count = random.below(12); count > 0; --count) {
    CallPlan call;
    call.kind = static_cast<CallKind>(random.below(kCommonCalls));
    if (random.chance(0.3)) call.kind = CallKind::look;
    call.at = some_time(random, plan.heals_at + milliseconds(5));
    call.host = small(random, hosts);
    call.other = (call.host + 1 + small(random, hosts - 1)) % hosts;
    call.dice = static_cast<std::uint32_t>(random.below(1 << 20));
    const auto closes = std::ranges::find(plan.closings, kAnyHost, &ClosingPlan::other);
    if (call.kind == CallKind::close_again && closes != plan.closings.end()) {
      call.host = closes->host;
      call.other = (call.host + 1) % hosts;
      call.at = closes->at + microseconds(random.below(300));
    }
    plan.calls.push_back(call);
  }
}

void draw_holding(Random& random, Plan& plan) {
  if (!random.chance(0.5)) return;
  for (ReceivePlan& receive : plan.receives) {
    if (!receive.claims && !receive.puts_back && random.chance(0.03)) receive.claims = true;
    const bool claims = receive.claims || receive.puts_back;
    if (claims && random.chance(0.5)) {
      receive.held = nanoseconds(logarithmic(random, 1000, 50'000'000));
    }
  }
}

// A step of a collective in which every host waits for many messages: all send to all others.
void draw_gathering(Random& random, Plan& plan) {
  if (!random.chance(0.25)) return;
  const auto hosts = static_cast<std::uint32_t>(plan.hosts.size());
  const auto each = static_cast<std::uint16_t>(1 + random.below(24 / (hosts * (hosts - 1)) + 2));
  const Duration at = some_time(random, plan.heals_at / 2);
  const std::uint64_t bytes = random.below(plan.tunables.fragment_bytes * 60);
  MessagePlan message;
  message.channel = kCollectiveChannel;
  message.hint.group = static_cast<std::uint32_t>(5000 + random.below(1000));
  const auto steps = static_cast<std::uint16_t>(1 + random.below(2));
  message.hint.members = static_cast<std::uint16_t>(each * (hosts - 1) / steps);
  message.hint.steps = steps;
  message.hint.collective = Collective::all_to_all;
  ReceivePlan receive;
  receive.channel = message.channel;
  for (std::uint32_t i = 0; i < each; ++i) {
    for (message.from = 0; message.from < hosts; ++message.from) {
      for (message.to = 0; message.to < hosts; ++message.to) {
        if (message.to == message.from) continue;
        message.tag = receive.tag = std::uint64_t{message.hint.group} << 16 | i;
        message.hint.step = static_cast<std::uint16_t>(i * steps / each);
        message.bytes = receive.bytes = random.chance(0.7) ? bytes : random.below(2 * bytes + 1);
        message.at = at + some_time(random, microseconds(500));
        plan.messages.push_back(message);
        receive.at = at + some_time(random, microseconds(500));
        receive.host = message.to;
        receive.from = message.from;
        plan.receives.push_back(receive);
      }
    }
  }
}

void draw_limits(Random& random, Plan& plan) {
  const auto hosts = plan.hosts.size();
  if (random.chance(0.3)) plan.tunables.max_peers = hosts + random.below(4);
  const bool has_checksums = random.chance(0.85);
  // A HELLO lists all NICs, so they must be few.
  const bool has_few = std::ranges::all_of(
      plan.hosts, [](const HostPlan& host) { return host.nics.size() <= kMostNicsOfSmall; });
  const bool is_small = has_few && plan.tunables.fragment_bytes <= 1024 && random.chance(0.3);
  for (HostPlan& host : plan.hosts) {
    host.nic.needs_checksum = has_checksums;
    if (is_small) host.nic.max_datagram_bytes = kSmallDatagram;
  }
  plan.traced = random.chance(0.95);
}

}  // namespace

void draw_more(Random& random, Plan& plan) {
  draw_limits(random, plan);
  draw_gathering(random, plan);
  draw_holding(random, plan);
  draw_intruder(random, plan);
  draw_bad_parting(random, plan);
  draw_long_message(random, plan);
  draw_calls(random, plan);
}

}  // namespace hawser::sim
