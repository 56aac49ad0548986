// SPDX-License-Identifier: Apache-2.0
// What `hawser run` says of RDMA ports: which of them `--nic verbs` stands for, and why nobody may
// have answered over them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/driver/verbs/verbs.hpp"

namespace hawser::tool {

struct VerbsChoice {
  std::vector<std::string> nics;  // as for --nic; the first ports that can be used
  // A line for each port that can't, and one for those beyond the most; or, if there are no NICs,
  // why, and that UDP takes their place.
  std::vector<std::string> notes;
};
[[nodiscard]] VerbsChoice choose_verbs(bool is_built, std::span<const engine::VerbsPortInfo> ports,
                                       std::size_t most);

// The RDMA ports among these NICs, as they are now. What is no NIC's name is left out.
[[nodiscard]] std::vector<engine::VerbsPortInfo> verbs_ports_of(std::span<const std::string> nics);

// For a rank that has found nobody: what its RDMA ports have turned away between two looks at them,
// and what to compare; a line each. Nothing if it has none.
[[nodiscard]] std::vector<std::string> reasons_of_silence(
    std::span<const engine::VerbsPortInfo> before, std::span<const engine::VerbsPortInfo> now,
    std::uint64_t handshakes_sent);

}  // namespace hawser::tool
