// SPDX-License-Identifier: Apache-2.0
// Where rank 0 listens that was told no rendezvous.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "hawser/nics.hpp"

namespace hawser::tool {

// The addresses, without ports, by which ranks of other hosts may reach rank 0's: those that UDP
// NICs would have first, then the others, so that bridges of container managers come last. RDMA
// ports, which have names and no address, loopback, what is down, and IPv6 addresses that are not
// preferred are passed over.
[[nodiscard]] std::vector<std::string> own_addresses(std::span<const HostNic> nics);

}  // namespace hawser::tool
