// SPDX-License-Identifier: Apache-2.0
// Deadlines of calls that block.
#pragma once

#include <cstdint>

#include "hawser/tunables.hpp"
#include "proto/base/time.hpp"

namespace hawser::engine {

// Returns `now` plus `timeout_ns`, or kNever if that overflows.
[[nodiscard]] constexpr proto::Time deadline_after(proto::Time now, std::uint64_t timeout_ns) {
  const auto left = static_cast<std::uint64_t>((proto::kNever - now).ns);
  return timeout_ns >= left ? proto::kNever : now + proto::nanoseconds(timeout_ns);
}

// Upper bound for closing. With punctual turns the protocol closes within twice close_timeout. A
// host that gives this process no processor may delay turns; then this bound ends the closing.
[[nodiscard]] constexpr proto::Duration closing_limit(const Tunables& tunables) {
  return proto::milliseconds(tunables.close_timeout_ms) * 2 + proto::milliseconds(10000);
}

// A single turn counts at most this much towards that bound, however long the process stood still.
inline constexpr proto::Duration kMostOfATurn = proto::milliseconds(1000);

}  // namespace hawser::engine
