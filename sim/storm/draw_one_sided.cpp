// SPDX-License-Identifier: Apache-2.0
// One-sided operations beside a storm's messages, of which most make room for them.
#include "sim/storm/draw.hpp"
#include "sim/storm/one_sided.hpp"

namespace hawser::sim {

namespace {

using proto::Duration;
using proto::nanoseconds;
using proto::Random;

// Bytes of all writes to one host. Its memory has a place for each write.
constexpr std::uint64_t kMostWritten = 1 << 20;

KeyKind draw_key(Random& random) {
  if (random.chance(0.94)) return KeyKind::right;
  return static_cast<KeyKind>(1 + random.below(kKeyKinds - 1));
}

std::uint64_t draw_length(Random& random, const Plan& plan) {
  const std::uint64_t fragment = plan.tunables.fragment_bytes;
  switch (random.below(4)) {
    case 0: return random.below(65);
    // Around what fits into a packet, with a signal and without.
    case 1: return fragment - 50 + random.below(100);
    case 2: return random.below(4 * fragment);
    default: return logarithmic(random, 1, 64 * fragment);
  }
}

}  // namespace

void draw_one_sided(Random& random, Plan& plan) {
  const auto hosts = static_cast<std::uint32_t>(plan.hosts.size());
  const bool keeps_messages = random.chance(0.3);
  if (!keeps_messages) {
    plan.messages.resize(plan.messages.size() / 8);
    plan.receives.resize(plan.receives.size() / 8);
  }
  std::vector<std::uint64_t> bytes_to(hosts, 0);
  const double strong = random.chance(0.3) ? 0.5 : 0.1;
  const std::uint32_t words = random.chance(0.5) ? 1 : OneSided::kWords;
  const std::uint32_t channels = random.chance(0.5) ? 1 : 3;
  const bool withdraws = random.chance(0.5);
  // All at once, or over the whole run.
  const Duration span = random.chance(0.3) ? nanoseconds(100'000) : plan.heals_at;
  const std::uint64_t count = logarithmic(random, 4, 300);
  for (std::uint64_t i = 0; i < count; ++i) {
    OneSidedPlan operation;
    operation.at = some_time(random, span);
    operation.from = small(random, hosts);
    operation.to = (operation.from + 1 + small(random, hosts - 1)) % hosts;
    operation.channel = static_cast<std::uint16_t>(small(random, channels));
    operation.word = small(random, words);
    operation.key = draw_key(random);
    operation.strong = random.chance(strong);
    const std::uint64_t dice = random.below(100);
    if (dice < 35) {
      operation.kind = OneSidedKind::write;
      operation.bytes = draw_length(random, plan);
      operation.signals = random.chance(0.4);
      operation.notifies = random.chance(0.3);
      if (bytes_to[operation.to] + operation.bytes > kMostWritten) continue;
      bytes_to[operation.to] += operation.bytes;
    } else if (dice < 50) {
      operation.kind = OneSidedKind::read;
      operation.bytes = std::min<std::uint64_t>(draw_length(random, plan), OneSided::kPage);
    } else if (dice < 65) {
      operation.kind = OneSidedKind::add;
    } else if (dice < 88) {
      operation.kind = OneSidedKind::fetch_add;
    } else if (dice < 94 || !withdraws) {
      operation.kind = OneSidedKind::flush;
    } else {
      operation.kind = OneSidedKind::withdraw;
    }
    plan.one_sided.push_back(operation);
  }
  std::ranges::stable_sort(plan.one_sided, {}, &OneSidedPlan::at);
}

void draw_chained_words(Random& random, Plan& plan) {
  if (!random.chance(0.5)) return;
  const auto hosts = static_cast<std::uint32_t>(plan.hosts.size());
  const std::uint32_t words = random.chance(0.5) ? 1 : OneSided::kChains;
  const std::uint32_t channels = random.chance(0.5) ? 1 : 3;
  const double strong = random.chance(0.3) ? 0.5 : 0.1;
  // Many at one word, or each host's words have some.
  const bool one_target = random.chance(0.5);
  const std::uint32_t target = small(random, hosts);
  const Duration span = random.chance(0.3) ? nanoseconds(100'000) : plan.heals_at;
  const std::uint64_t count = logarithmic(random, 4, 200);
  for (std::uint64_t i = 0; i < count; ++i) {
    OneSidedPlan operation;
    operation.at = some_time(random, span);
    operation.to = one_target ? target : small(random, hosts);
    operation.from = (operation.to + 1 + small(random, hosts - 1)) % hosts;
    operation.channel = static_cast<std::uint16_t>(small(random, channels));
    operation.word = small(random, words);
    operation.key = draw_key(random);
    operation.strong = random.chance(strong);
    const std::uint64_t dice = random.below(100);
    operation.kind = dice < 40   ? OneSidedKind::swap
                     : dice < 75 ? OneSidedKind::compare_and_swap
                     : dice < 90 ? OneSidedKind::load
                                 : OneSidedKind::store;
    plan.one_sided.push_back(operation);
  }
  std::ranges::stable_sort(plan.one_sided, {}, &OneSidedPlan::at);
}

}  // namespace hawser::sim
