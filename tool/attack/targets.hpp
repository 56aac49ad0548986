// SPDX-License-Identifier: Apache-2.0
// Where an attacker aims: the UDP sockets of the ranks that its own parent has started.
#pragma once

#include <netinet/in.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace hawser::tool {

// IPv4 sockets of the ranks among the children of `launcher`, by what the kernel tells in /proc.
// Sockets of other programs are never among them. Empty while there are none.
[[nodiscard]] std::vector<sockaddr_in> sockets_of_ranks(int launcher);

// Of the text of /proc/net/udp, those whose inode is among `inodes` ("12345").
[[nodiscard]] std::vector<sockaddr_in> parse_udp_table(std::string_view text,
                                                       const std::set<std::string>& inodes);

}  // namespace hawser::tool
