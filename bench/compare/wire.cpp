// SPDX-License-Identifier: Apache-2.0
#include "bench/compare/wire.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>

namespace hawser::bench {

namespace {

void write_all(int fd, const void* data, std::size_t bytes) {
  if (::send(fd, data, bytes, MSG_NOSIGNAL) != static_cast<ssize_t>(bytes)) {
    throw std::runtime_error("the other process is gone");
  }
}

void read_all(int fd, void* data, std::size_t bytes) {
  if (bytes > 0 && ::recv(fd, data, bytes, MSG_WAITALL) != static_cast<ssize_t>(bytes)) {
    throw std::runtime_error("the other process is gone");
  }
}

}  // namespace

void Wire::put(const std::string& text) const {
  const std::uint64_t size = text.size();
  write_all(fd_, &size, sizeof size);
  write_all(fd_, text.data(), text.size());
}

std::string Wire::get(const std::function<void()>& idle) const {
  for (pollfd here{fd_, POLLIN, 0}; ::poll(&here, 1, 0) == 0;) idle();
  std::uint64_t size = 0;
  read_all(fd_, &size, sizeof size);
  std::string text(size, '\0');
  read_all(fd_, text.data(), size);
  return text;
}

}  // namespace hawser::bench
