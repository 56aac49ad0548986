// SPDX-License-Identifier: Apache-2.0
// Ways that carry less in one piece than the NICs at their ends, and processes whose epoch is no
// higher than that of the process before them.
#include "sim/storm/draw.hpp"

namespace hawser::sim {

namespace {

using proto::Duration;
using proto::microseconds;
using proto::milliseconds;
using proto::nanoseconds;
using proto::Random;

// Narrow ways split a message into more fragments. There may be no more of them than the longest
// messages have otherwise.
constexpr std::uint64_t kMostFragments = 2600;
constexpr std::uint64_t kHeaders = 80;
constexpr std::uint64_t kLeastFragment = 256;
// A tag apart, so that few of the plan's other receives match these messages.
constexpr std::uint64_t kTag = 60;

}  // namespace

// Some ways are narrow from the start on, so that all sessions begin with them. Others become
// narrow in the middle of a session, and wide again.
void draw_narrow(Random& random, Plan& plan) {
  if (!random.chance(0.6)) return;
  std::uint64_t longest = 0;
  for (const MessagePlan& message : plan.messages) longest = std::max(longest, message.bytes);
  const std::uint64_t least = longest / kMostFragments + kHeaders;
  for (std::uint64_t count = 1 + random.below(6); count > 0; --count) {
    FaultPlan fault = draw_place(random, plan);
    fault.kind = FaultKind::narrow;
    // The first two are less than any session can take; the last one is more than most take.
    const std::uint64_t bytes = one_of(random, {100, 330, 400, 576, 700, 1100, 1372, 4000});
    const bool is_too_short = longest > kMostFragments * kLeastFragment;
    fault.amount = static_cast<double>(is_too_short ? std::max(bytes, least) : bytes);
    fault.lasts = nanoseconds(logarithmic(random, 1'000'000, 1'000'000'000));
    if (random.chance(0.5)) {
      fault.at = {};
      fault.lasts = std::max(fault.lasts, plan.heals_at);
    }
    plan.faults.push_back(fault);
    plan.heals_at = std::max(plan.heals_at, fault.at + fault.lasts);
  }
}

// A way becomes narrow in the middle of a session, and wide again. Messages begin before, meanwhile
// and afterwards.
void draw_changing_ways(Random& random, Plan& plan) {
  const std::uint64_t fragment = plan.tunables.fragment_bytes;
  if (fragment <= kLeastFragment) return;
  for (std::uint64_t count = 1 + random.below(2); count > 0; --count) {
    FaultPlan fault = draw_place(random, plan);
    fault.kind = FaultKind::narrow;
    fault.lasts = nanoseconds(logarithmic(random, 5'000'000, 500'000'000));
    const std::uint64_t bytes = kHeaders + kLeastFragment + random.below(fragment - kLeastFragment);
    fault.amount = static_cast<double>(bytes);
    plan.faults.push_back(fault);
    const Duration ends = fault.at + fault.lasts;
    Duration last = ends;
    for (std::uint64_t messages = 6 + random.below(8); messages > 0; --messages) {
      MessagePlan message;
      message.at = some_time(random, fault.lasts * 3);
      message.at = std::max(fault.at + message.at - fault.lasts, Duration{});
      message.from = fault.host;
      message.to = fault.other_host;
      message.tag = kTag;
      message.bytes = random.below(fragment * 6);
      last = std::max(last, message.at);
      add_with_receive(plan, message);
    }
    plan.heals_at = std::max(plan.heals_at, last);
  }
}

// The clock of a host went back, or is too coarse. Afterwards the host and others call each other.
void draw_epochs(Random& random, Plan& plan) {
  if (!random.chance(0.5)) return;
  const auto hosts = static_cast<std::uint32_t>(plan.hosts.size());
  const Tunables& t = plan.tunables;
  const Duration patience = milliseconds(t.peer_timeout_ms + t.longest_absence_ms);
  for (std::uint64_t count = 1 + random.below(2); count > 0; --count) {
    FaultPlan fault = draw_place(random, plan);
    fault.kind = FaultKind::stale_epoch;
    fault.lasts = nanoseconds(logarithmic(random, 20'000, 20'000'000));
    fault.amount = random.chance(0.6) ? static_cast<double>(1 + random.below(3)) : 0;
    plan.faults.push_back(fault);
    Duration last = fault.at + fault.lasts;
    for (std::uint64_t messages = 2 + random.below(6); messages > 0; --messages) {
      MessagePlan message;
      // At once, or after the others have noticed.
      message.at = fault.at + fault.lasts +
                   some_time(random, random.chance(0.5) ? milliseconds(20) : patience * 4);
      message.from = fault.host;
      message.to = (fault.host + 1 + small(random, hosts - 1)) % hosts;
      if (random.chance(0.3)) std::swap(message.from, message.to);
      message.tag = kTag;
      message.bytes = random.below(t.fragment_bytes * 3);
      if (random.chance(0.3)) message.level = Level::delivered;
      last = std::max(last, message.at);
      plan.messages.push_back(message);
      if (random.chance(0.4)) continue;
      ReceivePlan receive;
      receive.at = message.at;
      receive.host = message.to;
      receive.from = random.chance(0.5) ? kAnyHost : message.from;
      receive.tag = message.tag;
      receive.bytes = message.bytes;
      plan.receives.push_back(receive);
    }
    plan.heals_at = std::max(plan.heals_at, last);
  }
}

std::uint64_t first_epoch(const Plan& plan) {
  constexpr std::uint64_t kHigh = 1'000'000;
  const bool goes_back = std::ranges::any_of(
      plan.faults, [](const FaultPlan& fault) { return fault.kind == FaultKind::stale_epoch; });
  return goes_back ? kHigh : 1;
}

}  // namespace hawser::sim
