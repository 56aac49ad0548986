// SPDX-License-Identifier: Apache-2.0
// Measures what an object takes from the heap, and how much of that is resident. Linking this
// replaces operator new and delete.
#pragma once

#include <cstdint>

namespace hawser::bench {

// Fixes where allocations lie, so that recorded pages hold nothing else and begin untouched. Call
// it once, before anything large is allocated.
void prepare_recording();
// Forgets earlier records and records allocations until stop_recording(): at most 256. They must
// not be freed before resident() is called.
void start_recording();
void stop_recording();
// Recorded bytes that are resident: whole pages of large allocations (mincore), all bytes of small
// ones.
[[nodiscard]] std::uint64_t resident();

}  // namespace hawser::bench
