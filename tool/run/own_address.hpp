// Where rank 0 listens that was told no rendezvous.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "hawser/nics.hpp"

namespace hawser::tool {

// Where rank 0 listens for the ranks of other hosts: "10.0.0.1:0" or "[fd00::1]:0", any free port
// of the first address that a UDP NIC may have. RDMA ports, which have names and no address,
// loopback, what is down, and IPv6 addresses that are not preferred are passed over. Nothing: there
// is none.
[[nodiscard]] std::optional<std::string> own_address(std::span<const HostNic> nics);

}  // namespace hawser::tool
