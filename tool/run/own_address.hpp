// SPDX-License-Identifier: Apache-2.0
// The address at which rank 0 listens if it was told no rendezvous.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "hawser/nics.hpp"

namespace hawser::tool {

// The addresses, without ports, by which ranks of other hosts may reach rank 0. The preferred
// addresses of UDP NICs come first, then the others, so that bridges of container managers come
// last. RDMA ports are left out, since they have names and no address. Loopback, interfaces that
// are down, and IPv6 addresses that are not preferred are left out, too.
[[nodiscard]] std::vector<std::string> own_addresses(std::span<const HostNic> nics);

}  // namespace hawser::tool
