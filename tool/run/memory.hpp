// SPDX-License-Identifier: Apache-2.0
// The memory that this host, and this process' own limits, can still give.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

namespace hawser::tool {

inline constexpr std::uint64_t kUnknownMemory = std::numeric_limits<std::uint64_t>::max();

// The smaller of two figures: the kernel's available memory, and what the control groups leave.
// kUnknownMemory if neither is known, for example if /proc is not mounted.
[[nodiscard]] std::uint64_t available_memory_bytes();

// The memory that this process may still take under its limits (`ulimit -v`, `ulimit -d`, or Grid
// Engine's h_vmem). kUnknownMemory if there are none.
[[nodiscard]] std::uint64_t process_memory_left_bytes();

struct ProcessLimits {
  std::uint64_t address_space = kUnknownMemory;  // RLIMIT_AS
  std::uint64_t data = kUnknownMemory;           // RLIMIT_DATA
};
// The same, from a /proc/self/status text.
[[nodiscard]] std::uint64_t left_of_limits(const ProcessLimits& limits, std::string_view status);

// The memory that there is for the ranks of this host. Its own limits count what a process has
// reserved, used or not.
struct MemoryRoom {
  std::uint64_t host_bytes = kUnknownMemory;     // for all together
  std::uint64_t process_bytes = kUnknownMemory;  // for each of them, beyond what it has
  std::uint64_t limit_bytes = kUnknownMemory;    // for each of them, with what it has
};
[[nodiscard]] MemoryRoom memory_room();

// "MemAvailable:   12 kB" of a /proc/meminfo text, in bytes; 0 if it isn't there.
[[nodiscard]] std::uint64_t meminfo_available_bytes(std::string_view meminfo);

// The most memory that this process has had since its program started. (getrusage's figure would
// include the process that started it.)
[[nodiscard]] std::uint64_t peak_memory_bytes();

}  // namespace hawser::tool
