// SPDX-License-Identifier: Apache-2.0
#include "plugin/torch/notifier.hpp"

#include <utility>

namespace hawser::torch_plugin {

// Never destroyed: a callback may run while the process ends.
Notifier& Notifier::of_process() {
  static Notifier* const notifier = new Notifier;
  return *notifier;
}

Notifier::Notifier() {
  std::thread([this] { run_tasks(); }).detach();
}

void Notifier::run(std::function<void()> task) {
  {
    const std::lock_guard guard(mutex_);
    tasks_.push_back(std::move(task));
  }
  news_.notify_one();
}

void Notifier::run_tasks() {
  for (;;) {
    std::unique_lock guard(mutex_);
    news_.wait(guard, [this] { return !tasks_.empty(); });
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    guard.unlock();
    task();
  }
}

}  // namespace hawser::torch_plugin
