// SPDX-License-Identifier: Apache-2.0
// A thread that runs the callbacks of futures. They are the program's: they may wait for other
// operations, or for Python's lock, so no thread that makes progress may run them.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace hawser::torch_plugin {

class Notifier {
 public:
  // It lives as long as the process.
  [[nodiscard]] static Notifier& of_process();

  void run(std::function<void()> task);

 private:
  Notifier();
  void run_tasks();

  std::mutex mutex_;
  std::condition_variable news_;
  std::deque<std::function<void()>> tasks_;
};

}  // namespace hawser::torch_plugin
