// Which of a host's addresses ranks use that were told none.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hawser/nics.hpp"

namespace hawser::tool {

// One UDP NIC of each network device, by its first IPv4 address, else by its first IPv6 one: a
// device with addresses of both families, or with several, is one NIC. At most `most`.
[[nodiscard]] std::vector<std::string> own_udp_nics(std::span<const HostNic> nics,
                                                    std::size_t most);

// Where rank 0 listens for the ranks of other hosts: "10.0.0.1:0" or "[fd00::1]:0", any free port
// of the first address that a UDP NIC may have. RDMA ports, which have names and no address,
// loopback and what is down are passed over. Nothing: there is none.
[[nodiscard]] std::optional<std::string> own_address(std::span<const HostNic> nics);

}  // namespace hawser::tool
