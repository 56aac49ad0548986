// SPDX-License-Identifier: Apache-2.0
// Randomness that a stranger can't guess, from the operating system: identities, seeds, secrets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace hawser::engine {

// Throws hawser::Error if the system has none to give.
void fill_random(std::span<std::byte> bytes);

// Never 0, which means "not drawn yet" wherever it is used.
[[nodiscard]] std::uint64_t random_number();

}  // namespace hawser::engine
