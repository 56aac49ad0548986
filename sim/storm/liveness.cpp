// SPDX-License-Identifier: Apache-2.0
#include "sim/storm/liveness.hpp"

#include <algorithm>
#include <bit>

namespace hawser::sim {

using proto::Duration;
using proto::microseconds;
using proto::milliseconds;

namespace {

// Bytes that a message costs beside its payload: the control packets about it, and the header of
// each packet.
constexpr std::uint64_t kOverhead = 256;
constexpr std::uint64_t kHeader = 96;
// The interval of a question grows up to this part of peer_timeout.
constexpr std::uint64_t kLongestInterval = 8;
// The window of a path has this many packets at least (docs/internals/protocol.md, W4).
constexpr std::int64_t kLeastWindow = 2;
// This many calls try one pair of NICs each, and this many more try all pairs. The interval of
// calls doubles up to this part of peer_timeout, and jitter adds up to a half.
constexpr std::uint64_t kQuickCalls = 3;
constexpr std::uint64_t kSweepCalls = 8;
constexpr std::uint64_t kLongestCall = 16;

}  // namespace

Liveness::Liveness(const Plan& plan, const Reasons& reasons)
    : plan_(plan), reasons_(reasons), sent_(plan.hosts.size()), got_(plan.hosts.size()) {
  const proto::AllTunables& t = plan.tunables;
  judges_ = t.recovery_pto != 0 && t.recovery_request != 0 && t.recovery_evacuate != 0 &&
            t.recovery_gate != 0;
  slowest_ = ~std::uint64_t{0};
  Duration latency{};
  for (const HostPlan& host : plan.hosts) {
    for (const PortPlan& port : host.nics) {
      slowest_ = std::min(slowest_, port.cable.bytes_per_s);
      latency = std::max(latency, port.cable.latency);
    }
  }
  for (const CablePlan& cable : plan.cables) {
    slowest_ = std::min(slowest_, cable.link.bytes_per_s);
    latency = std::max(latency, cable.link.latency);
  }
  timers_ = microseconds(t.initial_rtt_us + t.handshake_retry_us + t.max_ack_delay_us +
                         t.timer_granularity_us + t.late_wakeup_us);
  trip_ = latency * 6 + microseconds(t.max_ack_delay_us);
  intervals_ =
      microseconds(t.path_probe_max_us) + milliseconds(t.peer_timeout_ms) / kLongestInterval;
}

// Where places are few, messages lie unreceived for long on purpose. A message that finds the store
// full is asked for at intervals.
bool Liveness::is_calm(Duration from, Duration to) const {
  if (has_few_places(plan_)) return false;
  return std::ranges::none_of(plan_.faults, [&](const FaultPlan& fault) {
    const Duration felt = fault.at + fault.lasts * 3 + intervals_ * 2;
    return fault.at < to && (fault.kind == FaultKind::crash || felt > from);
  });
}

// A turn sends no more packets than its budget, so the turns may take longer than the bytes.
Duration Liveness::transfer(std::uint32_t a, std::uint32_t b, Duration until) const {
  std::uint64_t bytes = 0;
  std::uint64_t packets = 0;
  const auto add = [&](const auto& one) {
    if ((one.from != a && one.to != a && one.from != b && one.to != b) || one.at > until) return;
    const std::uint64_t fragments = one.bytes / plan_.tunables.fragment_bytes;
    bytes += one.bytes + kOverhead + fragments * kHeader;
    packets += fragments + 1;
  };
  for (const MessagePlan& message : plan_.messages) add(message);
  for (const OneSidedPlan& operation : plan_.one_sided) {
    add(operation);
    if (has_reply(operation.kind)) add(operation);
  }
  const Duration turn = std::max(plan_.hosts[a].turn, plan_.hosts[b].turn);
  const std::uint64_t turns = packets / plan_.tunables.send_budget_packets + 1;
  return std::max(microseconds(bytes * 1'000'000 / slowest_),
                  turn * static_cast<std::int64_t>(turns));
}

// A window that begins with few packets and doubles with each answer covers the message after so
// many of them.
//
// A host that slept knows only that a packet came since its last turn. Its samples of the fabric
// are therefore wrong by up to a turn and the time of waking, and the path's least delay is the
// sample that is wrong by most. If the target above that is shorter than the error, any round
// may look congested, and the window then stays at its least (docs/internals/protocol.md, W1, W4).
Duration Liveness::answers(const MessagePlan& message) const {
  const HostPlan& from = plan_.hosts[message.from];
  const HostPlan& to = plan_.hosts[message.to];
  const std::uint64_t packets = message.bytes / plan_.tunables.fragment_bytes + 1;
  const Duration error = from.turn + from.wake_up + to.turn + to.wake_up;
  const auto doublings =
      static_cast<std::int64_t>(std::bit_width(packets / plan_.tunables.initial_window_packets));
  const Duration growing = (trip_ + microseconds(plan_.tunables.late_wakeup_us)) * doublings;
  if (microseconds(plan_.tunables.delay_target_us) >= error) return growing;
  return std::max(growing,
                  (trip_ + error) * (static_cast<std::int64_t>(packets) / kLeastWindow + 1));
}

// Receivers wait for what may have been overtaken. They remember by how much packets were, until
// much has come in order.
Duration Liveness::overtaken(Duration until) const {
  Duration longest{};
  for (const FaultPlan& fault : plan_.faults) {
    if (fault.kind == FaultKind::straggle && fault.at < until)
      longest = std::max(longest, fault.delay);
  }
  return longest;
}

// From the first call between the two until the last pair of their NICs has been tried.
Duration Liveness::calls(std::uint32_t a, std::uint32_t b) const {
  std::uint64_t pairs = 0;  // of NICs that can address each other; calls pass over the others
  for (const PortPlan& one : plan_.hosts[a].nics) {
    pairs += static_cast<std::uint64_t>(
        std::ranges::count(plan_.hosts[b].nics, one.network, &PortPlan::network));
  }
  const std::uint64_t all = plan_.hosts[a].nics.size() * plan_.hosts[b].nics.size();
  const Duration first = microseconds(plan_.tunables.handshake_retry_us);
  const Duration longest =
      std::max(first, milliseconds(plan_.tunables.peer_timeout_ms) / kLongestCall);
  Duration interval = first;
  Duration sum{};
  std::uint64_t tried = 1;
  for (std::uint64_t call = 1; tried < pairs; ++call) {
    tried += call < kQuickCalls ? 1 : (all + kSweepCalls - 1) / kSweepCalls;
    sum = sum + interval * 3 / 2;
    interval = std::min(interval * 2, longest);
  }
  return sum;
}

std::string Liveness::on_received(const Arrival& arrival) {
  const std::uint32_t index = arrival.message;
  const Duration now = arrival.now;
  const MessagePlan& message = plan_.messages[index];
  const std::uint32_t from = message.from;
  const std::uint32_t to = message.to;
  const Duration since = std::max({arrival.posted, sent_[from], got_[to]});
  sent_[from] = got_[to] = now;
  if (!judges_ || !arrival.judged || now - since <= timers_) return {};
  const bool calm = is_calm(since, now);
  const Duration took = calm ? now - since : reasons_.undisturbed(from, to, since, now);
  if (took <= timers_) return {};
  const Duration least = transfer(from, to, now) * 2 + answers(message) + timers_ + overtaken(now);
  const Duration called = since < arrival.established ? calls(from, to) : Duration{};
  const Duration most = calm ? least : (least + intervals_) * 2 + called;
  if (took <= most) return {};
  return "message " + std::to_string(index) + " (" + std::to_string(from) + " to " +
         std::to_string(to) + ") took " + std::to_string(took.ns / 1000) + " us, " +
         (calm ? "although no fault was active" : "although a way was open") + ": at most " +
         std::to_string(most.ns / 1000) + " us";
}

}  // namespace hawser::sim
