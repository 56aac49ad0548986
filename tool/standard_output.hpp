// Commands whose report goes to standard output: one that can't be written is an error, too.
#pragma once

#include <cerrno>
#include <cstdio>
#include <system_error>

#include <fmt/format.h>

#include "tool/error.hpp"

namespace hawser::tool {

// What command() returns. Throws InputError if not all that it printed could be written.
template <class Command>
auto with_written_output(Command&& command) {
  try {
    const auto result = command();
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      throw std::system_error(errno, std::generic_category());
    }
    return result;
  } catch (const std::system_error& error) {  // of fmt::print, too
    throw InputError(fmt::format("cannot write to standard output: {}", error.code().message()));
  }
}

}  // namespace hawser::tool
