// SPDX-License-Identifier: Apache-2.0
// The transports by name.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench/compare/transport.hpp"

namespace hawser::bench {

// In the order of the table.
[[nodiscard]] const std::vector<std::string>& transport_names();

// Throws Failure for a name that there is not, or is not in this build: it says what is missing.
[[nodiscard]] std::unique_ptr<Transport> make_transport(std::string_view name,
                                                        TransportOptions options);

// Whether it repairs what is lost.
[[nodiscard]] bool is_reliable(std::string_view name);

}  // namespace hawser::bench
