// How much memory this host can still give.
#pragma once

#include <cstdint>
#include <string_view>

namespace hawser::tool {

// The smaller of what the kernel calls available and what the control group leaves.
// The largest number if neither is known.
[[nodiscard]] std::uint64_t available_memory_bytes();

// "MemAvailable:   12 kB" of a /proc/meminfo text, in bytes; 0 if it isn't there.
[[nodiscard]] std::uint64_t meminfo_available_bytes(std::string_view meminfo);

}  // namespace hawser::tool
