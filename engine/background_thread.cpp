// SPDX-License-Identifier: Apache-2.0
#include "engine/background_thread.hpp"

#include <pthread.h>
#include <signal.h>

#include <system_error>
#include <utility>

#include "engine/system_error.hpp"

namespace hawser::engine {
namespace {

// Blocks all signals while it lives. A thread started meanwhile inherits the blocked mask.
class SignalBlock {
 public:
  SignalBlock() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalBlock() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalBlock(const SignalBlock&) = delete;
  SignalBlock& operator=(const SignalBlock&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

std::thread start_background_thread(const std::string& name, std::function<void()> run) {
  try {
    const SignalBlock blocked;
    std::thread thread(std::move(run));
    pthread_setname_np(thread.native_handle(), name.c_str());
    return thread;
  } catch (const std::system_error& error) {
    throw system_error("The thread " + name + " can't be started", error.code().value());
  }
}

}  // namespace hawser::engine
