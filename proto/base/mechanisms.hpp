// SPDX-License-Identifier: Apache-2.0
// The mechanisms of the protocol that experiments and tests turn off, to see what they are worth.
// No call, option or environment variable of a user reaches them.
//
// To add one: add a row here, and its key to the plans in test/tool/plans.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "hawser/tunables.hpp"

namespace hawser::proto {

// X(name, least, what it does). All are 1, which is on. Storms draw from `least` to 1.
#define HAWSER_MECHANISMS(X)                                                                      \
  X(recovery_evacuate, 0,                                                                         \
    "the sender resends a silent path's packets on other paths at once; off: timers do it")       \
  X(recovery_request, 0,                                                                          \
    "the receiver requests missing fragments; off: only the sender detects loss")                 \
  X(recovery_gate, 0, "the receiver first requests fragments that a collective's step waits for") \
  X(recovery_pto, 1,                                                                              \
    "the sender probes when nothing is acknowledged; off: tail loss relies on the receiver")      \
  X(recovery_early, 0,                                                                            \
    "the sender probes early if the end of a message is unanswered; off: at the timeout")         \
  X(pack_messages, 0,                                                                             \
    "small messages that wait for one peer share packets; off: each has its own")                 \
  X(spray_weighted, 0, "the sender chooses paths by their delivery rate; off: equally")

struct Mechanisms {
#define HAWSER_FIELD(name, least, reason) std::uint64_t name = 1;
  HAWSER_MECHANISMS(HAWSER_FIELD)
#undef HAWSER_FIELD
};

struct MechanismRow {
  std::string_view name;
  std::uint64_t least;
  std::uint64_t Mechanisms::*field;
};

inline constexpr auto kMechanisms = std::to_array<MechanismRow>({
#define HAWSER_ROW(name, least, reason) MechanismRow{#name, least, &Mechanisms::name},
    HAWSER_MECHANISMS(HAWSER_ROW)
#undef HAWSER_ROW
});

// All that an endpoint can be set to.
struct AllTunables : Tunables, Mechanisms {
  AllTunables() = default;
  // All that a user can set, with every mechanism on.
  AllTunables(const Tunables& tunables) : Tunables(tunables) {}
};

// Calls visit(name, value, least, most) for each; `value` is a reference into `tunables`.
template <class All, class Visit>
void for_each_tunable(All& tunables, Visit&& visit) {
  for (const TunableRow& row : kTunables) {
    visit(row.name, tunables.*row.field, row.minimum, row.maximum);
  }
  for (const MechanismRow& row : kMechanisms) {
    visit(row.name, tunables.*row.field, std::uint64_t{0}, std::uint64_t{1});
  }
}

}  // namespace hawser::proto
