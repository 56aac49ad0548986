// SPDX-License-Identifier: Apache-2.0
// Makes transports by name.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench/compare/transport.hpp"

namespace hawser::bench {

// In the order of the table.
[[nodiscard]] const std::vector<std::string>& transport_names();

// Throws Failure if there is no such name, or if this build lacks it; the message says what is
// missing.
[[nodiscard]] std::unique_ptr<Transport> make_transport(std::string_view name,
                                                        TransportOptions options);

// Whether the transport repairs losses.
[[nodiscard]] bool is_reliable(std::string_view name);

}  // namespace hawser::bench
