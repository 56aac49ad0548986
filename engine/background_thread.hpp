// SPDX-License-Identifier: Apache-2.0
// A thread of the library's own.
#pragma once

#include <functional>
#include <string>
#include <thread>

namespace hawser::engine {

// Signals are blocked in it: the application's are for the application's threads. `name` has at
// most 15 characters. Throws hawser::Error.
[[nodiscard]] std::thread start_background_thread(const std::string& name,
                                                  std::function<void()> run);

}  // namespace hawser::engine
