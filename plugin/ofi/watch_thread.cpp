// SPDX-License-Identifier: Apache-2.0
#include "plugin/ofi/watch_thread.hpp"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

#include "plugin/ofi/uncancelled.hpp"

namespace hawser::ofi {

WatchThread::WatchThread(int descriptor, std::chrono::milliseconds pause, const char* name,
                         std::function<void()> act)
    : watched_(descriptor),
      pause_(pause),
      act_(std::move(act)),
      stop_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (stop_.get() < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  // Block signals in the thread, because the program's signals are for its own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::make_unique<std::thread>([this] { run(); });
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread_->native_handle(), name);
}

WatchThread::~WatchThread() {
  if (!thread_) return;
  const Uncancelled uncancelled;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(stop_.get(), &one, sizeof one);
  thread_->join();
}

void WatchThread::run() {
  std::array<pollfd, 2> polled{pollfd{stop_.get(), POLLIN, 0}, pollfd{watched_, POLLIN, 0}};
  for (;;) {
    (void)::poll(polled.data(), polled.size(), -1);
    if (polled[0].revents == 0 && pause_.count() > 0) {
      (void)::poll(polled.data(), 1, static_cast<int>(pause_.count()));
    }
    if (polled[0].revents != 0) return;
    act_();
  }
}

}  // namespace hawser::ofi
