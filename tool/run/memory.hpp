// SPDX-License-Identifier: Apache-2.0
// The memory that this host can still give.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

namespace hawser::tool {

inline constexpr std::uint64_t kUnknownMemory = std::numeric_limits<std::uint64_t>::max();

// The smaller of two figures: the kernel's available memory, and what the control groups leave.
// kUnknownMemory if neither is known, for example if /proc is not mounted.
[[nodiscard]] std::uint64_t available_memory_bytes();

// "MemAvailable:   12 kB" of a /proc/meminfo text, in bytes; 0 if it isn't there.
[[nodiscard]] std::uint64_t meminfo_available_bytes(std::string_view meminfo);

// The most memory that this process has had since its program started. (getrusage's figure would
// include the process that started it.)
[[nodiscard]] std::uint64_t peak_memory_bytes();

}  // namespace hawser::tool
