// SPDX-License-Identifier: Apache-2.0
// A thread that acts while the program is elsewhere (FI_PROGRESS_AUTO).
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "plugin/ofi/descriptor.hpp"

namespace hawser::ofi {

class WatchThread {
 public:
  // Calls `act` whenever the descriptor is readable, `pause` after that at the earliest. The
  // program may meanwhile have read what made it readable. `name` has 15 characters at most. Throws
  // std::system_error.
  WatchThread(int descriptor, std::chrono::milliseconds pause, const char* name,
              std::function<void()> act);
  ~WatchThread();
  WatchThread(const WatchThread&) = delete;
  WatchThread& operator=(const WatchThread&) = delete;
  // For a child of fork, which has no such thread.
  void abandon() { (void)thread_.release(); }

 private:
  void run();

  int watched_;
  std::chrono::milliseconds pause_;
  std::function<void()> act_;
  Descriptor stop_;
  std::unique_ptr<std::thread> thread_;
};

}  // namespace hawser::ofi
