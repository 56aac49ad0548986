// SPDX-License-Identifier: Apache-2.0
// The faults that a NIC injects, and the parser of their specification. docs/faults.md has the
// grammar.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "proto/base/time.hpp"
#include "proto/nic.hpp"

namespace hawser::engine {

// Faults of packets in one direction. Probabilities are per packet, 0 to 1.
struct DirectionFaults {
  double loss = 0;
  // Gilbert-Elliott: before each packet the channel turns bad with probability burst_enter, and
  // good again with burst_leave. In the bad state a packet is lost with burst_loss.
  double burst_enter = 0;
  double burst_leave = 0;
  double burst_loss = 1;
  double duplicate = 0;
  double reorder = 0;
  std::uint32_t reorder_depth = 3;  // packets of the same queue that overtake it
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
  proto::Duration late_reap{};  // how long completed sends wait before reap reports them
  double partial_burst = 0;     // per tx_burst: it accepts only a random part of the packets
  bool dead = false;
};

// Requests in a specification that act once, unlike settings, which last.
struct FaultActions {
  std::optional<std::uint64_t> seed;
  std::optional<proto::NicEvent::Kind> event;  // the last one that the specification names
  bool moves = false;                          // the NIC takes another address
};

struct FaultSpecError {
  std::string_view word;    // of the specification
  std::string_view reason;  // static text
};

// Parses `spec` on top of `settings`: settings that it doesn't name stay. Doesn't allocate. On an
// error, `settings` and `actions` are unchanged.
[[nodiscard]] std::optional<FaultSpecError> parse_fault_spec(std::string_view spec,
                                                             FaultSettings& settings,
                                                             FaultActions& actions);

// Returns the first word that a NIC with these caps can't do, if there is one. A fabric that is
// trusted to deliver data intact can't be damaged: the protocol would believe the damaged data.
[[nodiscard]] std::optional<FaultSpecError> find_unsupported(const FaultSettings& settings,
                                                             const proto::NicCaps& caps);

}  // namespace hawser::engine
