// SPDX-License-Identifier: Apache-2.0
// The kernel's word on this host's IPv6 addresses: RTM_GETADDR of rtnetlink(7).
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

// The IPv6 addresses of messages that answer RTM_GETADDR. A malformed message ends the reading.
[[nodiscard]] std::vector<StatedAddress> parse_address_states(std::span<const std::byte> messages);

// Asks the kernel. Empty where it doesn't answer: then nothing is known against any address.
[[nodiscard]] std::vector<StatedAddress> read_address_states();

// The state of the address; `interface` is its scope (0: any). Nothing: the list doesn't have it.
[[nodiscard]] std::optional<AddressState> state_in(std::span<const StatedAddress> addresses,
                                                   const in6_addr& ip, std::uint32_t interface);

}  // namespace hawser::engine
