// SPDX-License-Identifier: Apache-2.0
// The parts that make up draw_plan, and what they share. Each draws from a generator of its own, so
// that a change in how one is drawn leaves the others of a seed as they were.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "proto/base/random.hpp"
#include "sim/storm/plan.hpp"

namespace hawser::sim {

[[nodiscard]] inline std::uint64_t one_of(proto::Random& random,
                                          std::initializer_list<std::uint64_t> values) {
  return values.begin()[random.below(values.size())];
}

[[nodiscard]] inline std::uint32_t small(proto::Random& random, std::uint64_t n) {
  return static_cast<std::uint32_t>(random.below(n));
}

// A number between the two; each order of magnitude is equally likely.
[[nodiscard]] inline std::uint64_t logarithmic(proto::Random& random, std::uint64_t low,
                                               std::uint64_t high) {
  std::uint64_t octaves = 1;
  for (std::uint64_t top = low; top < high; top = top * 2 + 1) ++octaves;
  std::uint64_t top = low;
  for (std::uint64_t steps = random.below(octaves); steps > 0; --steps) top = top * 2 + 1;
  top = std::min(top, high);
  return low + random.below(top - low + 1);
}

[[nodiscard]] inline proto::Duration some_time(proto::Random& random, proto::Duration most) {
  return proto::nanoseconds(random.below(static_cast<std::uint64_t>(most.ns) + 1));
}

// draw_traffic.cpp
void draw_traffic(proto::Random& random, Plan& plan);
void draw_flood(proto::Random& random, Plan& plan);

void draw_closings(proto::Random& random, Plan& plan);

// draw_more.cpp; called when everything else is there
void draw_more(proto::Random& random, Plan& plan);

// draw_ways.cpp; last of all
void draw_ways(proto::Random& random, Plan& plan);
void draw_networks(proto::Random& random, Plan& plan);
void draw_standing(proto::Random& random, Plan& plan);

// draw_partners.cpp; of seeds from kFirstOfPartners on, after all others
void draw_partners(proto::Random& random, Plan& plan);

// Adds a message, and a receive for it that is posted at the same time.
inline void add_with_receive(Plan& plan, const MessagePlan& message) {
  ReceivePlan receive;
  receive.at = message.at;
  receive.host = message.to;
  receive.from = message.from;
  receive.tag = message.tag;
  receive.bytes = message.bytes;
  plan.messages.push_back(message);
  plan.receives.push_back(receive);
}

// draw_epochs.cpp; of seeds from kFirstOfEpochs on, after all others
void draw_narrow(proto::Random& random, Plan& plan);
void draw_changing_ways(proto::Random& random, Plan& plan);
void draw_epochs(proto::Random& random, Plan& plan);

// draw_one_sided.cpp; of seeds from kFirstOfOneSided on, after all others
void draw_one_sided(proto::Random& random, Plan& plan);
void draw_chained_words(proto::Random& random, Plan& plan);

// draw_pieces.cpp; of the same seeds
void draw_pieces(proto::Random& random, Plan& plan);

// The kinds from here on, up to `no_buffers`, are drawn by themselves, so that those before them
// stay as they were.
inline constexpr FaultKind kFirstIntruder = FaultKind::garbled;

// draw_faults.cpp
[[nodiscard]] FaultPlan draw_place(proto::Random& random, const Plan& plan);

// draw_faults.cpp; called when all other parts of the plan are there
void draw_faults(proto::Random& random, Plan& plan);
void draw_crossed(proto::Random& random, Plan& plan);
void draw_stragglers(proto::Random& random, Plan& plan);

}  // namespace hawser::sim
