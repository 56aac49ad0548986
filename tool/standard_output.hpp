// SPDX-License-Identifier: Apache-2.0
// Standard streams as commands need them: a report that can't be written is an error.
#pragma once

#include <cstdio>
#include <utility>

#include <fmt/format.h>

namespace hawser::tool {

// The value that main() returns. It is `status`, unless all went well (0) but part of the standard
// output could not be written: then it is ExitCode::bad_input, and standard error says so. `reason`
// is an errno that is known already.
[[nodiscard]] int with_written_output(int status, int reason = 0);

// A line for people, on standard error. A failure to write it is ignored, as nobody could hear of
// it.
template <class... Arguments>
void tell(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  static_cast<void>(
      std::fputs(fmt::format(text, std::forward<Arguments>(arguments)...).c_str(), stderr));
}

}  // namespace hawser::tool
