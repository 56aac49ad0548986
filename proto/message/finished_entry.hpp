// SPDX-License-Identifier: Apache-2.0
// The values in a peer's table of incoming messages: a descriptor's index, or, of a message that is
// finished, its final status.
#pragma once

#include <cstdint>

#include "proto/wire/layout.hpp"

namespace hawser::proto {

// The bit of a finished message.
inline constexpr std::uint32_t kFinishedEntry = 0x80000000u;
[[nodiscard]] constexpr bool is_finished_entry(std::uint32_t entry) {
  return (entry & kFinishedEntry) != 0;
}
[[nodiscard]] constexpr wire::MessageStatus status_of_entry(std::uint32_t entry) {
  return static_cast<wire::MessageStatus>(entry & 0xff);
}

}  // namespace hawser::proto
