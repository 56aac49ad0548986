// SPDX-License-Identifier: Apache-2.0
// Messages and receives of a plan.
#include "sim/storm/draw.hpp"

namespace hawser::sim {

namespace {

using proto::Duration;
using proto::microseconds;
using proto::milliseconds;
using proto::nanoseconds;
using proto::Random;

// Bounds of the number of single messages, and of all fragments.
constexpr std::uint64_t kLeastMessages = 20;
constexpr std::uint64_t kMostMessages = 150;
constexpr std::uint64_t kLeastFragments = 800;
constexpr std::uint64_t kMoreFragments = 1300;
constexpr std::uint64_t kLargeFragment = 1024;

// Lengths are drawn in fragments, since a storm is about packets.
std::uint64_t draw_bytes(Random& random, std::uint64_t fragment) {
  switch (random.below(8)) {
    case 0: return 0;
    case 1: return 1 + random.below(64);
    case 2: return fragment - 1 + random.below(3);
    case 3: return fragment * (1 + random.below(20)) + random.below(3) - 1;
    case 4: return random.below(fragment * 60);
    case 5: return random.below(fragment * 160);
    case 6: return random.below(30000);
    default: return random.below(fragment * 5);
  }
}

void draw_message(Random& random, Plan& plan, Duration span, std::uint64_t bytes) {
  const auto hosts = static_cast<std::uint32_t>(plan.hosts.size());
  MessagePlan message;
  message.at = some_time(random, span);
  message.from = small(random, hosts);
  message.to = (message.from + 1 + small(random, hosts - 1)) % hosts;
  message.channel = static_cast<std::uint16_t>(random.below(2));
  message.tag = random.below(4);
  message.bytes = bytes;
  if (random.chance(0.3)) message.level = Level::delivered;
  message.hint.priority = static_cast<std::uint8_t>(random.chance(0.2) ? random.below(4) : 0);
  if (random.chance(0.05)) message.cancelled_after = some_time(random, microseconds(500));
  plan.messages.push_back(message);

  // A receive that fits the message, before or after it; sometimes none, or one that fits others
  // too.
  if (random.chance(0.1)) return;
  ReceivePlan receive;
  const Duration shift = some_time(random, milliseconds(random.chance(0.2) ? 20 : 1));
  const bool early = random.chance(0.5) && message.at > shift;
  receive.at = early ? message.at - shift : message.at + shift;
  receive.host = message.to;
  receive.channel = message.channel;
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
  const std::uint64_t bytes = draw_bytes(random, plan.tunables.fragment_bytes) / (hosts - 1);
  const auto group = static_cast<std::uint32_t>(1 + random.below(1000));
  const auto steps = static_cast<std::uint16_t>(2 * (hosts - 1));
  for (std::uint16_t step = 0; step < steps; ++step) {
    for (std::uint32_t host = 0; host < hosts; ++host) {
      MessagePlan message;
      message.at = at + nanoseconds(std::uint64_t{50000} * step);
      message.from = host;
      message.to = (host + 1) % hosts;
      message.channel = kCollectiveChannel;
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
      receive.channel = message.channel;
      receive.tag = message.tag;
      receive.bytes = bytes;
      plan.receives.push_back(receive);
    }
  }
}

std::uint64_t fragments(const Plan& plan) {
  std::uint64_t sum = 0;
  for (const MessagePlan& message : plan.messages) {
    sum += 1 + message.bytes / plan.tunables.fragment_bytes;
  }
  return sum;
}

}  // namespace

// The number of packets is drawn, since packets are what a storm costs; the number of messages
// follows from it. Few storms get messages of many MiB, and fewer still if fragments are small.
void draw_traffic(Random& random, Plan& plan) {
  const Duration span = milliseconds(2 + random.below(40));
  plan.heals_at = span + milliseconds(random.below(20));
  const std::uint64_t fragment = plan.tunables.fragment_bytes;
  if (random.chance(0.4)) draw_ring(random, plan, span);
  const std::uint64_t enough = kLeastFragments + random.below(kMoreFragments);
  const std::uint64_t most = plan.messages.size() + kMostMessages;
  if (random.chance(fragment < kLargeFragment ? 0.02 : 0.4)) {
    draw_message(random, plan, span, 1'000'000 + random.below(3'000'000));
  }
  const std::uint64_t least = plan.messages.size() + kLeastMessages;
  while (plan.messages.size() < least ||
         (plan.messages.size() < most && fragments(plan) < enough)) {
    draw_message(random, plan, span, draw_bytes(random, fragment));
  }
}

// More small messages than there are descriptors for messages without a receive.
void draw_flood(Random& random, Plan& plan) {
  if (!random.chance(0.1)) return;
  plan.tunables.max_receive_messages = 16;
  const auto hosts = static_cast<std::uint32_t>(plan.hosts.size());
  MessagePlan message;
  message.to = small(random, hosts);
  message.channel = 1;
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
    receive.channel = message.channel;
    receive.tag = message.tag;
    receive.bytes = 3000;
    plan.receives.push_back(receive);
  }
}

namespace {

// Many small messages end in different ways while their receiver closes. Its last statuses then
// take more than one packet. Sometimes many packets are lost meanwhile.
void draw_last_words(Random& random, Plan& plan) {
  const auto hosts = static_cast<std::uint32_t>(plan.hosts.size());
  MessagePlan message;
  message.to = small(random, hosts);
  message.from = (message.to + 1 + small(random, hosts - 1)) % hosts;
  message.channel = 1;
  message.at = some_time(random, plan.heals_at / 2);
  message.tag = 20;  // no receive matches it, so the floor stays there
  message.level = Level::delivered;
  plan.messages.push_back(message);
  ReceivePlan receive;
  receive.at = message.at;
  receive.host = message.to;
  receive.from = message.from;
  receive.channel = message.channel;
  receive.bytes = 8;
  message.level = Level::accepted;
  for (std::uint64_t i = 0; i < 280; ++i) {
    message.at = message.at + microseconds(random.below(10));
    message.tag = receive.tag = 21 + i % 2;
    message.bytes = random.below(9);
    plan.messages.push_back(message);
    if (i % 2 == 0) plan.receives.push_back(receive);
  }
  if (random.chance(0.7)) {
    FaultPlan fault;
    fault.kind = FaultKind::loss;
    fault.host = message.to;
    fault.at = std::max(message.at - milliseconds(1), Duration{});
    fault.lasts = milliseconds(20);
    fault.amount = 0.3;
    plan.faults.push_back(fault);
    plan.heals_at = std::max(plan.heals_at, fault.at + fault.lasts);
  }
  plan.closings.push_back({message.at + microseconds(random.below(500)), message.to, kAnyHost});
}

}  // namespace

// Some of the hosts close, some of the pairs disconnect, and at the end all hosts may close.
void draw_closings(Random& random, Plan& plan) {
  const auto hosts = static_cast<std::uint32_t>(plan.hosts.size());
  const Duration most = plan.heals_at + plan.heals_at / 8;
  plan.closes_at_end = random.chance(0.5);
  if (random.chance(0.3)) plan.tunables.close_timeout_ms = one_of(random, {0, 1, 10, 1000});
  if (random.chance(0.15)) {
    for (std::uint32_t count = 1 + small(random, hosts - 1); count > 0; --count) {
      plan.closings.push_back({some_time(random, most), small(random, hosts), kAnyHost});
    }
  }
  if (random.chance(0.05)) draw_last_words(random, plan);
  if (!random.chance(0.2)) return;
  for (std::uint64_t count = 1 + random.below(6); count > 0; --count) {
    ClosingPlan closing{some_time(random, most), small(random, hosts)};
    closing.other = (closing.host + 1 + small(random, hosts - 1)) % hosts;
    plan.closings.push_back(closing);
  }
}

}  // namespace hawser::sim
