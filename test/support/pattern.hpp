// SPDX-License-Identifier: Apache-2.0
// The bytes of a test's messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hawser::test {

// Bytes that differ by seed and place, so that a misplaced byte shows.
[[nodiscard]] std::string pattern(std::uint64_t seed, std::size_t bytes);
// Whether `bytes` are the first ones of pattern(seed, n) for any n that is large enough.
[[nodiscard]] bool begins_pattern(std::string_view bytes, std::uint64_t seed);
[[nodiscard]] bool all_are(std::string_view bytes, char value);

}  // namespace hawser::test
