// SPDX-License-Identifier: Apache-2.0
#include "engine/entropy.hpp"

#include <errno.h>
#include <sys/random.h>

#include "engine/system_error.hpp"

namespace hawser::engine {

void fill_random(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::getrandom(bytes.data(), bytes.size(), 0);
    if (got < 0) {
      if (errno == EINTR) continue;
      throw system_error("The system provides no random numbers");
    }
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
}

std::uint64_t random_number() {
  std::uint64_t number = 0;
  while (number == 0) fill_random(std::as_writable_bytes(std::span(&number, 1)));
  return number;
}

}  // namespace hawser::engine
