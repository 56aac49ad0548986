// SPDX-License-Identifier: Apache-2.0
// What faults a NIC injects, and the words that say so. The grammar is in docs/faults.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "proto/base/time.hpp"
#include "proto/nic.hpp"

namespace hawser::engine {

// Faults of the packets that go one way. Probabilities are per packet, 0 to 1.
struct DirectionFaults {
  double loss = 0;
  // Gilbert-Elliott: before each packet the channel turns bad with burst_enter, and good again with
  // burst_leave; in the bad state a packet is lost with burst_loss.
  double burst_enter = 0;
  double burst_leave = 0;
  double burst_loss = 1;
  double duplicate = 0;
  double reorder = 0;
  std::uint32_t reorder_depth = 3;  // packets of the same queue that overtake
  proto::Duration delay{};
  proto::Duration jitter{};  // added to delay, uniform in [0, jitter]
  double corrupt = 0;        // flips 1 to 3 bits
  double truncate = 0;       // cuts to a random length
  bool blackhole = false;
  std::uint64_t rate_bytes_per_s = 0;  // 0 = no limit
};

struct FaultSettings {
  DirectionFaults tx;
  DirectionFaults rx;
  proto::Duration late_reap{};  // how long completed sends wait before reap tells of them
  double partial_burst = 0;     // per tx_burst: takes only a random part of what it is offered
  bool dead = false;
};

// What a specification asks for beyond settings that last.
struct FaultActions {
  std::optional<std::uint64_t> seed;
  std::optional<proto::NicEvent::Kind> event;  // the last one named
  bool moves = false;                          // takes another address
};

struct FaultSpecError {
  std::string_view word;    // of the specification
  std::string_view reason;  // static text
};

// Reads `spec` on top of `settings`: what it doesn't name stays. Doesn't allocate.
// With an error, `settings` and `actions` are as before.
[[nodiscard]] std::optional<FaultSpecError> parse_fault_spec(std::string_view spec,
                                                             FaultSettings& settings,
                                                             FaultActions& actions);

// The word that a NIC with these caps can't do, if there is one: damage on a fabric that is trusted
// to deliver what was sent would be believed.
[[nodiscard]] std::optional<FaultSpecError> find_unsupported(const FaultSettings& settings,
                                                             const proto::NicCaps& caps);

}  // namespace hawser::engine
