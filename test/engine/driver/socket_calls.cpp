// SPDX-License-Identifier: Apache-2.0
#include "test/engine/driver/socket_calls.hpp"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

// These functions replace those of the C library.
extern "C" int socket(int family, int type, int protocol) noexcept {
  ++hawser::test::sockets_asked_for;
  if (hawser::test::out_of_descriptors) {
    errno = EMFILE;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_socket, family, type, protocol));
}

extern "C" ssize_t send(int fd, const void* data, size_t bytes, int flags) {
  ++hawser::test::questions_sent;
  return ::syscall(SYS_sendto, fd, data, bytes, flags, nullptr, 0);
}
