// `hawser info`: what this host offers, what limits it, and every tunable.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/driver/verbs.hpp"
#include "hawser/tunables.hpp"

namespace hawser::tool {

// The names of RDMA devices that the kernel knows of.
[[nodiscard]] std::vector<std::string> rdma_devices();

// What packets of these ports look like to switches, a line for each kind of port that can be used;
// or why there are none.
[[nodiscard]] std::string verbs_packets_text(const Tunables& tunables,
                                             std::span<const engine::VerbsPortInfo> ports);

// The whole text.
[[nodiscard]] std::string info_text();

// `hawser info --to ADDRESS`: the way from each UDP NIC of this host to that address, and what a
// full packet carries there. Throws InputError if it is no IP address.
[[nodiscard]] std::string ways_text(const std::string& to);

}  // namespace hawser::tool
