// SPDX-License-Identifier: Apache-2.0
// Ctrl-C and SIGTERM, of commands that end what is under way in order.
#pragma once

namespace hawser::tool {

void catch_interrupts();
// Since catch_interrupts().
[[nodiscard]] bool interrupted();

}  // namespace hawser::tool
