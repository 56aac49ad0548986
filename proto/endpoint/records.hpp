// SPDX-License-Identifier: Apache-2.0
// Small records that an endpoint keeps beside its peers and messages: verdicts,
// operations, and the values in the tables of incoming messages.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hawser/events.hpp"
#include "hawser/types.hpp"
#include "proto/base/slab.hpp"
#include "proto/base/time.hpp"
#include "proto/wire/layout.hpp"

namespace hawser::proto {

// A verdict, told or about to be.
struct StandingVerdict {
  Verdict verdict{};
  Time since{};
  std::uint32_t looks = 0;  // judgements that supported it
  bool told = false;
  bool supported = false;  // by the judgement under way
};
inline constexpr std::size_t kMaxVerdicts = 64;

// A value of Peer::incoming: a descriptor's index, or this bit and the final status.
inline constexpr std::uint32_t kFinishedEntry = 0x80000000u;
[[nodiscard]] constexpr bool is_finished_entry(std::uint32_t entry) {
  return (entry & kFinishedEntry) != 0;
}
[[nodiscard]] constexpr wire::MessageStatus status_of_entry(std::uint32_t entry) {
  return static_cast<wire::MessageStatus>(entry & 0xff);
}

}  // namespace hawser::proto
