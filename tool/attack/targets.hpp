// SPDX-License-Identifier: Apache-2.0
// An attacker's targets: the UDP sockets of the ranks that its own parent has started.
#pragma once

#include <netinet/in.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace hawser::tool {

// IPv4 sockets of the ranks among the children of `launcher`, according to /proc. Sockets of other
// programs are never among them. Empty while there are none.
[[nodiscard]] std::vector<sockaddr_in> sockets_of_ranks(int launcher);

// The sockets in the text of /proc/net/udp whose inode is among `inodes` ("12345").
[[nodiscard]] std::vector<sockaddr_in> parse_udp_table(std::string_view text,
                                                       const std::set<std::string>& inodes);

}  // namespace hawser::tool
