// A hawser::Error in the words of the operating system.
#pragma once

#include <errno.h>

#include <string>
#include <system_error>

#include "hawser/engine.hpp"

namespace hawser::engine {

// "what: why", with why from `code`, by default errno.
[[nodiscard]] inline Error system_error(const std::string& what, int code = errno) {
  return Error(what + ": " + std::generic_category().message(code));
}

}  // namespace hawser::engine
