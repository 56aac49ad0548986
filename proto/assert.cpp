#include "proto/assert.hpp"

#include <cstdio>
#include <cstdlib>

namespace hawser::proto {

void assertion_failed(const char* condition, const char* file, int line) noexcept {
  std::fprintf(stderr, "hawser: broken invariant: %s (%s:%d)\n", condition, file, line);
  std::abort();
}

}  // namespace hawser::proto
