// SPDX-License-Identifier: Apache-2.0
// Packets as tests write them.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace hawser::test {

// Parses hex digits in pairs, such as "01 ff 2a". Spaces and line ends mean nothing.
[[nodiscard]] inline std::vector<std::byte> from_hex(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::vector<std::byte> bytes;
  unsigned value = 0;
  bool half = false;
  for (const char c : text) {
    const std::size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) continue;
    value = value << 4 | static_cast<unsigned>(digit);
    if (half) bytes.push_back(static_cast<std::byte>(value & 0xff));
    half = !half;
  }
  return bytes;
}

}  // namespace hawser::test
