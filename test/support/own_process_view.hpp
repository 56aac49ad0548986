// SPDX-License-Identifier: Apache-2.0
// What the kernel shows of the process that runs the test: descriptors, threads and memory.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

namespace hawser::test {

// The names in a folder of /proc/self that are numbers; without the descriptor that reads it.
inline std::set<int> numbers_in(const std::string& folder) {
  std::set<int> numbers;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    numbers.insert(std::stoi(entry.path().filename().string()));
  }
  return numbers;
}

inline std::set<int> open_descriptors() {
  std::set<int> open;
  for (const int fd : numbers_in("/proc/self/fd")) {
    if (::fcntl(fd, F_GETFD) != -1) open.insert(fd);
  }
  return open;
}

inline std::set<int> threads_of_process() { return numbers_in("/proc/self/task"); }

inline bool is_close_on_exec(int fd) { return (::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0; }

// A field of a thread's status, such as SigBlk; empty if the thread is gone.
inline std::string status_of(int thread, const std::string& field) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(field + ":")) continue;
    return line.substr(line.find_first_not_of(" \t", field.size() + 1));
  }
  return {};
}

// The process's resident memory; 0 if the kernel doesn't say.
inline std::size_t resident_kib() {
  const std::string kib = status_of(::getpid(), "VmRSS");
  return kib.empty() ? 0 : std::stoul(kib);
}

}  // namespace hawser::test
