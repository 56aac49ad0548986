// SPDX-License-Identifier: Apache-2.0
// The engine's log messages, written through spdlog's logger "hawser". An application may register
// a logger of that name before the first message to receive them. Otherwise they go to standard
// error, from the level in the environment variable HAWSER_LOG (debug, info, warn, error, off;
// default warn).
#pragma once

#include <string_view>

namespace hawser::engine {

// A level in capitals counts, too.
[[nodiscard]] bool is_log_level(std::string_view word);

// Not for the datapath. Any thread may call them.
void log_info(std::string_view message) noexcept;
void log_warning(std::string_view message) noexcept;
void log_error(std::string_view message) noexcept;

}  // namespace hawser::engine
