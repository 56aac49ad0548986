// SPDX-License-Identifier: Apache-2.0
// Standard streams as commands need them: a report that can't be written is an error.
#pragma once

#include <cstdio>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace hawser::tool {

// The value that main() returns. It is `status`, unless all went well (0) but part of the standard
// output could not be written: then it is ExitCode::bad_input, and standard error says so. `reason`
// is an errno that is known already.
[[nodiscard]] int with_written_output(int status, int reason = 0);

// Writes to the stream. A failure is ignored, as nobody could hear of it: work that is right does
// not end because nobody watches it. Only standard output is different, since reports go there: a
// failure throws std::system_error.
void put(std::FILE* out, std::string_view text);

template <class... Arguments>
void print_to(std::FILE* out, fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  put(out, fmt::format(text, std::forward<Arguments>(arguments)...));
}

// A line for people, on standard error.
template <class... Arguments>
void tell(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  print_to(stderr, text, std::forward<Arguments>(arguments)...);
}

}  // namespace hawser::tool
