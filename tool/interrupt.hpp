// SPDX-License-Identifier: Apache-2.0
// Ctrl-C and SIGTERM for commands that end their work in good order.
#pragma once

namespace hawser::tool {

// SIGINT stays ignored if it is, as in a script's background jobs.
void catch_interrupts();
// Whether one has come since catch_interrupts().
[[nodiscard]] bool interrupted();

}  // namespace hawser::tool
