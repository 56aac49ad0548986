// SPDX-License-Identifier: Apache-2.0
// Ctrl-C and SIGTERM for commands that end their work in good order.
#pragma once

namespace hawser::tool {

void catch_interrupts();
// Whether one has come since catch_interrupts().
[[nodiscard]] bool interrupted();

}  // namespace hawser::tool
