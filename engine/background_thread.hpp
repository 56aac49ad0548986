// SPDX-License-Identifier: Apache-2.0
// Starts the library's own threads.
#pragma once

#include <functional>
#include <string>
#include <thread>

namespace hawser::engine {

// Starts a thread with all signals blocked, because the application's signals are for its own
// threads. `name` has at most 15 characters. Throws hawser::Error.
[[nodiscard]] std::thread start_background_thread(const std::string& name,
                                                  std::function<void()> run);

}  // namespace hawser::engine
