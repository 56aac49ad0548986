// FI_HAWSER_STATS: which NICs carried what.
#pragma once

#include <cstdint>
#include <string>

#include "hawser/engine.hpp"

namespace hawser::ofi {

// `where`: "" nowhere, "1" standard error, else a file that it is appended to.
void write_stats(const std::string& where, std::uint64_t endpoint_id,
                 const hawser::Endpoint& endpoint);

}  // namespace hawser::ofi
