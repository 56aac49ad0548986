// SPDX-License-Identifier: Apache-2.0
// A thread for tests to cancel, which is how C programs end their progress threads.
#pragma once

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>

#include "test/support/hang_limit.hpp"

namespace hawser::test {

class Cancellable {
 public:
  explicit Cancellable(std::function<void()> run) : run_(std::move(run)) {
    began_ = ::pthread_create(&thread_, nullptr, begin, this) == 0;
  }
  ~Cancellable() {
    if (began_ && !joined_) (void)was_cancelled();
  }
  Cancellable(const Cancellable&) = delete;
  Cancellable& operator=(const Cancellable&) = delete;

  // Waits until the thread blocks in the kernel. False if it did not within kHangLimit.
  [[nodiscard]] bool blocks_in_kernel() const {
    return comes_true([this] { return id_ != 0 && state() == 'S'; });
  }
  void cancel() const { (void)::pthread_cancel(thread_); }
  // Waits for the thread's end. False if it returned.
  [[nodiscard]] bool was_cancelled() {
    void* how = nullptr;
    (void)::pthread_join(thread_, &how);
    joined_ = true;
    return how == PTHREAD_CANCELED;
  }

 private:
  static void* begin(void* self) {
    auto& mine = *static_cast<Cancellable*>(self);
    mine.id_ = static_cast<int>(::syscall(SYS_gettid));
    mine.run_();
    return nullptr;
  }
  [[nodiscard]] char state() const {
    const std::string path = "/proc/self/task/" + std::to_string(id_) + "/stat";
    std::FILE* const file = std::fopen(path.c_str(), "r");
    if (file == nullptr) return '?';
    char state = '?';
    if (std::fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = '?';
    (void)std::fclose(file);
    return state;
  }

  std::function<void()> run_;
  pthread_t thread_{};
  std::atomic<int> id_{0};
  bool began_ = false;
  bool joined_ = false;
};

}  // namespace hawser::test
