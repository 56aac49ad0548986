// SPDX-License-Identifier: Apache-2.0
// A forked copy of this process that does one thing. Whatever happens to it, a crash or an endless
// loop, happens to it alone. Also memory in which it leaves its results.
#pragma once

#include <sys/mman.h>
#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "engine/system_error.hpp"

namespace hawser::tool {

// One T, and `extra_bytes` behind it, that this process shares with its forked copies. It starts as
// T{} and zeros; untouched pages cost nothing.
template <class T>
class Shared {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  explicit Shared(std::size_t extra_bytes = 0) : bytes_(sizeof(T) + extra_bytes) {
    void* const memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      throw std::runtime_error(engine::system_error("no memory to share with workers").what());
    }
    value_ = new (memory) T{};
  }
  ~Shared() { (void)::munmap(value_, bytes_); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  [[nodiscard]] T& operator*() const { return *value_; }
  [[nodiscard]] T* operator->() const { return value_; }
  [[nodiscard]] void* extra() const { return value_ + 1; }

 private:
  std::size_t bytes_;
  T* value_;
};

class Forked {
 public:
  // The copy calls work() and ends. It also ends when this process does, and ignores Ctrl-C. Throws
  // std::runtime_error.
  explicit Forked(const std::function<void()>& work);
  ~Forked();  // kills it, if it still runs
  Forked(const Forked&) = delete;
  Forked& operator=(const Forked&) = delete;

  // Its standard error, to wait for with poll(2); -1 once the other end is closed.
  [[nodiscard]] int fd() const { return fd_; }
  // Reads what is there, and checks whether the copy has ended; returns true if so.
  bool update();
  void kill();
  // The CPU time that the copy has used so far; 0 once it has ended.
  [[nodiscard]] std::uint64_t cpu_ns() const;
  // Waits for its end, at most this long; returns true if it came.
  bool wait(double seconds);

  // How it ended, as one line, once it has; empty if it has done its work.
  [[nodiscard]] std::string failure() const;
  // The end of what it wrote to standard error.
  [[nodiscard]] const std::string& last_words() const { return last_words_; }

 private:
  void read();

  pid_t pid_ = -1;
  int fd_ = -1;
  bool ended_ = false;
  int wait_status_ = 0;
  std::string last_words_;
};

}  // namespace hawser::tool
