// SPDX-License-Identifier: Apache-2.0
// A hawser::Error with the operating system's error text.
#pragma once

#include <errno.h>

#include <string>
#include <system_error>

#include "hawser/engine.hpp"

namespace hawser::engine {

// Advice on an error that a limit causes; empty for all others.
[[nodiscard]] inline std::string advice_on(int code) {
  switch (code) {
    case EMFILE: return "; raise this process's limit of open files (ulimit -n)";
    case ENFILE: return "; raise the host's limit of open files (sysctl fs.file-max)";
    default: return {};
  }
}

// Builds "what: why", with why from `code`, by default errno.
[[nodiscard]] inline Error system_error(const std::string& what, int code = errno) {
  return Error(what + ": " + std::generic_category().message(code) + advice_on(code));
}

}  // namespace hawser::engine
