// SPDX-License-Identifier: Apache-2.0
// FI_HAWSER_STATS: a table of the traffic of each NIC.
#pragma once

#include <cstdint>
#include <string>

#include "hawser/engine.hpp"

namespace hawser::ofi {

// Explains why a table can't be appended to the file; "" if it can. Creates the file if it doesn't
// exist.
[[nodiscard]] std::string complaint_about_place(const std::string& where);

// `where`: "" writes nothing, "1" to standard error, any other value appends to that file.
void write_stats(const std::string& where, std::uint64_t endpoint_id,
                 const hawser::Endpoint& endpoint);

}  // namespace hawser::ofi
