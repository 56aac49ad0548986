// SPDX-License-Identifier: Apache-2.0
// Standard streams as commands need them: a report that can't be written is an error.
#pragma once

#include <cstdio>
#include <utility>

#include <fmt/format.h>

namespace hawser::tool {

// What main() returns instead of `status`: the same, or ExitCode::bad_input if all went well (0)
// but not all of the standard output could be written. That is told on standard error; `reason` is
// an errno that is known already.
[[nodiscard]] int with_written_output(int status, int reason = 0);

// A line for people, on standard error. Nobody can be told that it could not be written.
template <class... Arguments>
void tell(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  static_cast<void>(
      std::fputs(fmt::format(text, std::forward<Arguments>(arguments)...).c_str(), stderr));
}

}  // namespace hawser::tool
