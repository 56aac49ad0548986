// SPDX-License-Identifier: Apache-2.0
// The processors that a thread may run on. Sets have no fixed size, since a kernel refuses one that
// has fewer places than the kernel itself counts processors. A cpu_set_t has 1,024.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hawser::engine {

// Returns the numbers of the processors that the calling thread may run on, in ascending order.
// Empty: the system doesn't report them.
[[nodiscard]] std::vector<std::uint32_t> allowed_processors();

// Lets the calling thread run on these processors only. False: there are none, or the system
// refused, and the thread keeps those that it had.
bool bind_to_processors(std::span<const std::uint32_t> processors);

// Binds the calling thread to one of its processors, which take turns. Turn 0 is the first of them,
// turn 1 the second, and so on. After the last one they begin again. False: the system refused, and
// the thread keeps all its processors.
bool bind_to_processor(std::uint32_t turn);

}  // namespace hawser::engine
