// SPDX-License-Identifier: Apache-2.0
// FI_HAWSER_STATS: which NICs carried what.
#pragma once

#include <cstdint>
#include <string>

#include "hawser/engine.hpp"

namespace hawser::ofi {

// What is wrong with a file that a table is to be appended to, "" if nothing is. It is there then,
// if it wasn't before.
[[nodiscard]] std::string complaint_about_place(const std::string& where);

// `where`: "" nowhere, "1" standard error, else a file that it is appended to.
void write_stats(const std::string& where, std::uint64_t endpoint_id,
                 const hawser::Endpoint& endpoint);

}  // namespace hawser::ofi
