// SPDX-License-Identifier: Apache-2.0
// What the engine tells people, through spdlog's logger "hawser". An application that registers a
// logger of that name before the first message gets them; otherwise they go to standard error, from
// the level in the environment variable HAWSER_LOG (debug, info, warn, error, off; default warn).
#pragma once

#include <string_view>

namespace hawser::engine {

// Not for the datapath. Any thread.
void log_info(std::string_view message) noexcept;
void log_warning(std::string_view message) noexcept;
void log_error(std::string_view message) noexcept;

}  // namespace hawser::engine
