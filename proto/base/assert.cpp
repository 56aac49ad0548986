// SPDX-License-Identifier: Apache-2.0
#include "proto/base/assert.hpp"

#include <cstdio>
#include <cstdlib>

namespace hawser::proto {

void assertion_failed(const char* file, int line, const char* expression,
                      const char* message) noexcept {
  const bool explained = message[0] != '\0';
  std::fprintf(stderr, "%s:%d: assertion failed: %s%s%s%s\n", file, line, expression,
               explained ? " (" : "", message, explained ? ")" : "");
  std::abort();
}

}  // namespace hawser::proto
