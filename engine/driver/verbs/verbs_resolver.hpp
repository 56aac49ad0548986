// SPDX-License-Identifier: Apache-2.0
// The threads that make address handles for a verbs NIC. There are several, as each call may block
// for a second; and some of them never try anything again, so that whoever can't be reached delays
// others that can't be, but none that can.
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
  static constexpr unsigned kRetrying = 2;  // of these try again, too

  // `destinations` outlives this. Throws Error.
  VerbsResolver(const std::string& nic, VerbsDestinations& destinations);
  ~VerbsResolver();
  VerbsResolver(const VerbsResolver&) = delete;
  VerbsResolver& operator=(const VerbsResolver&) = delete;

  // Ends the threads, after what they do now.
  void stop();

  // Any thread: there is something to be done.
  void wake() const;

  // One thread. Nothing is made or destroyed from the return of pause(), which waits for what is
  // being done, to resume().
  void pause();
  void resume();

 private:
  void run(bool retries);
  // False if it is to end. Else a pass may be made, until leave().
  [[nodiscard]] bool enter();
  void leave();

  VerbsDestinations& destinations_;
  // Apart, as what only those that try again can do must not wake another one instead.
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
