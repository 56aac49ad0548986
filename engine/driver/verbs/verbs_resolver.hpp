// SPDX-License-Identifier: Apache-2.0
// The threads that make address handles for a verbs NIC. There are several, as each call may block
// for a second. Some of them never retry. An unreachable remote therefore delays only other
// unreachable remotes.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/descriptor.hpp"
#include "engine/driver/verbs/verbs_destinations.hpp"

namespace hawser::engine {

class VerbsResolver {
 public:
  static constexpr unsigned kThreads = 4;
  static constexpr unsigned kRetrying = 2;  // of these also retry

  // `destinations` outlives this. Throws Error.
  VerbsResolver(const std::string& nic, VerbsDestinations& destinations);
  ~VerbsResolver();
  VerbsResolver(const VerbsResolver&) = delete;
  VerbsResolver& operator=(const VerbsResolver&) = delete;

  // Ends the threads, after their present work.
  void stop();

  // For any thread: there is work.
  void wake() const;

  // For one thread. pause() waits for the work in progress. Until resume() nothing is made or
  // destroyed.
  void pause();
  void resume();

 private:
  void run(bool retries);
  // Returns false if the thread must end. Otherwise it may do work until leave().
  [[nodiscard]] bool enter();
  void leave();

  VerbsDestinations& destinations_;
  // Two descriptors: work for retrying threads must not wake another thread instead.
  Descriptor wake_first_;
  Descriptor wake_retrying_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  bool paused_ = false;
  unsigned active_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace hawser::engine
