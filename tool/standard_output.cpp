// SPDX-License-Identifier: Apache-2.0
#include "tool/standard_output.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <iostream>
#include <system_error>

#include <fmt/format.h>

#include "tool/exit_code.hpp"

namespace hawser::tool {

int with_written_output(int status, int reason) {
  std::cout.flush();
  const bool is_written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (is_written) return status;
  // The stream keeps no reason; another write gives it.
  if (reason == 0) reason = ::write(STDOUT_FILENO, "\n", 1) < 0 ? errno : EIO;
  const std::error_code error(reason, std::generic_category());
  tell("hawser: cannot write to standard output: {}\n", error.message());
  return status == 0 ? static_cast<int>(ExitCode::bad_input) : status;
}

void put(std::FILE* out, std::string_view text) {
  const bool is_written = std::fwrite(text.data(), 1, text.size(), out) == text.size();
  if (is_written || out != stdout) return;
  throw std::system_error(errno, std::generic_category(), "cannot write to standard output");
}

}  // namespace hawser::tool
