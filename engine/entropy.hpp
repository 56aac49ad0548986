// SPDX-License-Identifier: Apache-2.0
// Unpredictable random numbers from the operating system, for identities, seeds and secrets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace hawser::engine {

// Throws hawser::Error if the system has no entropy to give.
void fill_random(std::span<std::byte> bytes);

// Never returns 0, which means "not drawn yet" wherever such a number is used.
[[nodiscard]] std::uint64_t random_number();

}  // namespace hawser::engine
