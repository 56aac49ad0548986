// SPDX-License-Identifier: Apache-2.0
// The monotonic clock of this host, as the command's own parts read it.
#pragma once

#include <chrono>
#include <cstdint>

namespace hawser::tool {

[[nodiscard]] inline std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

[[nodiscard]] constexpr double seconds(std::uint64_t ns) { return static_cast<double>(ns) * 1e-9; }

}  // namespace hawser::tool
