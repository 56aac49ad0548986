// SPDX-License-Identifier: Apache-2.0
// Deadlines of calls that wait.
#pragma once

#include <cstdint>

#include "hawser/tunables.hpp"
#include "proto/base/time.hpp"

namespace hawser::engine {

// `timeout_ns` after `now`; what is beyond the end of time is never.
[[nodiscard]] constexpr proto::Time deadline_after(proto::Time now, std::uint64_t timeout_ns) {
  const auto left = static_cast<std::uint64_t>((proto::kNever - now).ns);
  return timeout_ns >= left ? proto::kNever : now + proto::nanoseconds(timeout_ns);
}

// The protocol closes within twice close_timeout of turns that come in time. A host that gives this
// process no processor may take longer; then closing goes on no longer than this.
[[nodiscard]] constexpr proto::Duration closing_limit(const Tunables& tunables) {
  return proto::milliseconds(tunables.close_timeout_ms) * 2 + proto::milliseconds(10000);
}

// However long one turn took, or the process stood still, no more of it counts towards that limit.
inline constexpr proto::Duration kMostOfATurn = proto::milliseconds(1000);

}  // namespace hawser::engine
