// SPDX-License-Identifier: Apache-2.0
// The provider's messages: through libfabric's log (FI_LOG_LEVEL), or on standard error.
#pragma once

#include <string>

namespace hawser::ofi {

// Shown with FI_LOG_LEVEL=info.
void log_info(const std::string& text);
// Shown with FI_LOG_LEVEL=warn.
void log_warning(const std::string& text);
// Shown on standard error too, since most programs show no log. Each text is shown once.
void complain(const std::string& text);
// On standard error.
void say(const std::string& text);

}  // namespace hawser::ofi
