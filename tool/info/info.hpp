// SPDX-License-Identifier: Apache-2.0
// `hawser info`: what this host offers, what limits it, and every tunable.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/driver/verbs/verbs.hpp"
#include "hawser/nics.hpp"
#include "hawser/tunables.hpp"

namespace hawser::tool {

// The names of RDMA devices that the kernel knows.
[[nodiscard]] std::vector<std::string> rdma_devices();

// How switches see packets of these ports: a line for each kind of usable port, or the reason why
// there are none.
[[nodiscard]] std::string verbs_packets_text(const Tunables& tunables,
                                             std::span<const engine::VerbsPortInfo> ports);

// The UDP NICs of `host`, a line each, and a warning if no other host reaches any of them.
[[nodiscard]] std::string nics_text(std::span<const HostNic> host);

// A line for each NIC of `host`: whether `list` chooses it, and why or why not.
[[nodiscard]] std::string choice_text(const std::string& list, std::span<const HostNic> host);

// The whole text; `nics` is the list to explain. Empty: HAWSER_NICS, or else the default choice.
[[nodiscard]] std::string info_text(const std::string& nics);

// `hawser info --to ADDRESS`: the way from each UDP NIC of this host to that address, and what a
// full packet carries there. Throws InputError if it is no IP address.
[[nodiscard]] std::string ways_text(const std::string& to);

}  // namespace hawser::tool
