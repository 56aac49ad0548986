// SPDX-License-Identifier: Apache-2.0
// What the provider says: through libfabric's log (FI_LOG_LEVEL), or plainly.
#pragma once

#include <string>

namespace hawser::ofi {

// Shown with FI_LOG_LEVEL=info.
void log_info(const std::string& text);
// Shown with FI_LOG_LEVEL=warn.
void log_warning(const std::string& text);
// On standard error too, as most programs have no log, and once for each text.
void complain(const std::string& text);
// On standard error.
void say(const std::string& text);

}  // namespace hawser::ofi
