// SPDX-License-Identifier: Apache-2.0
// The transports that are open in one process, and the process's processor time.
#pragma once

#include <cstdint>
#include <ctime>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/compare/transport.hpp"
#include "engine/host/processors.hpp"

namespace hawser::bench {

using Cast = std::map<std::string, std::unique_ptr<Transport>>;

// Called while this process waits for the other one, which may still wait for last
// acknowledgements.
inline void idle(const Cast& cast) {
  for (const auto& [name, transport] : cast) transport->idle();
}

// Binds this thread to the first or second of its processors, and so on, while the object lives. A
// process that the thread starts later has all of them again.
class Pinned {
 public:
  explicit Pinned(std::uint32_t turn) : before_(engine::allowed_processors()) {
    (void)engine::bind_to_processor(turn);
  }
  ~Pinned() { (void)engine::bind_to_processors(before_); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

 private:
  std::vector<std::uint32_t> before_;
};

inline double seconds_of(clockid_t clock) {
  timespec now{};
  (void)::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Processor time of this process, all threads together.
inline double processor_seconds() { return seconds_of(CLOCK_PROCESS_CPUTIME_ID); }

// How long this thread has been ready to run while its core ran something else. Returns 0 if the
// kernel doesn't say.
inline double waiting_seconds() {
  std::ifstream file("/proc/thread-self/schedstat");
  double ran = 0;
  double waited = 0;
  file >> ran >> waited;
  return 1e-9 * waited;
}

// The content of messages: a byte in a wrong place shows.
inline std::vector<std::byte> pattern(std::size_t bytes) {
  std::vector<std::byte> all(bytes);
  for (std::size_t i = 0; i < bytes; ++i) all[i] = static_cast<std::byte>(i * 7 >> 3);
  return all;
}

}  // namespace hawser::bench
