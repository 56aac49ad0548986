// SPDX-License-Identifier: Apache-2.0
// The words of `hawser run` about RDMA ports: which of them `--nic verbs` stands for, and why
// nobody may have answered over them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/driver/verbs/verbs.hpp"

namespace hawser::tool {

struct VerbsChoice {
  std::vector<std::string> nics;  // as for --nic; the first usable ports
  // A line for each unusable port, and one for those beyond the most. If there are no NICs, the
  // reason, and that UDP takes their place.
  std::vector<std::string> notes;
};
[[nodiscard]] VerbsChoice choose_verbs(bool is_built, std::span<const engine::VerbsPortInfo> ports,
                                       std::size_t most);

// The RDMA ports among these NICs, as they are now. Names that are no NIC's are left out.
[[nodiscard]] std::vector<engine::VerbsPortInfo> verbs_ports_of(std::span<const std::string> nics);

// For a rank that has found no peer: what its RDMA ports turned away between two looks at them, and
// what to compare; a line each. Empty if it has none.
[[nodiscard]] std::vector<std::string> reasons_of_silence(
    std::span<const engine::VerbsPortInfo> before, std::span<const engine::VerbsPortInfo> now,
    std::uint64_t handshakes_sent);

}  // namespace hawser::tool
