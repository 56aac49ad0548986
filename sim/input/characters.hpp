// SPDX-License-Identifier: Apache-2.0
// Characters as the readers of text tell them apart.
#pragma once

#include <string_view>

namespace hawser::fabric {

inline constexpr std::string_view kBlanks = " \t\f\v";

[[nodiscard]] constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace hawser::fabric
