// SPDX-License-Identifier: Apache-2.0
// What a build without a library answers.
#pragma once

#include <string>

#include "bench/compare/transport.hpp"

namespace hawser::bench {

[[noreturn]] inline void fail_absent(const char* library, const char* package) {
  fail(std::string("built without ") + library + ": install " + package +
       " (./setup.sh compare) and configure the build anew");
}

}  // namespace hawser::bench
