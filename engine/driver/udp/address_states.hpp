// SPDX-License-Identifier: Apache-2.0
// The states of this host's IPv6 addresses, as the kernel reports them: RTM_GETADDR of
// rtnetlink(7).
#pragma once

#include <netinet/in.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "hawser/nics.hpp"

namespace hawser::engine {

struct StatedAddress {
  in6_addr ip{};
  std::uint32_t interface = 0;  // its index
  AddressState state = AddressState::preferred;
};

// The IPv6 addresses of messages that answer RTM_GETADDR. Parsing stops at a malformed message.
[[nodiscard]] std::vector<StatedAddress> parse_address_states(std::span<const std::byte> messages);

// Asks the kernel. Empty if it doesn't answer; callers then treat every address as usable.
[[nodiscard]] std::vector<StatedAddress> read_address_states();

// Returns the state of the address, or nothing if the list lacks it. `interface` is its scope (0:
// any).
[[nodiscard]] std::optional<AddressState> state_in(std::span<const StatedAddress> addresses,
                                                   const in6_addr& ip, std::uint32_t interface);

}  // namespace hawser::engine
