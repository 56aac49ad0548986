// SPDX-License-Identifier: Apache-2.0
// What an object takes from the heap, and how much of that is in memory: for programs that measure
// it. Linking this replaces operator new and delete.
#pragma once

#include <cstdint>

namespace hawser::bench {

// Fixes where allocations lie, so that pages of what is recorded are its own and begin untouched.
// Once, before anything large is allocated.
void prepare_recording();
// What is allocated until stop_recording() is remembered, and what was before is forgotten. At most
// 256 allocations, which aren't freed while resident() is asked for.
void start_recording();
void stop_recording();
// Bytes of what was recorded that are in memory: whole pages of large allocations (mincore), all of
// small ones.
[[nodiscard]] std::uint64_t resident();

}  // namespace hawser::bench
