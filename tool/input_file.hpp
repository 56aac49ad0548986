// SPDX-License-Identifier: Apache-2.0
// Files that the command reads.
#pragma once

#include <string>

namespace hawser::tool {

// All of a file. Throws InputError with the reason if the file can't be opened, or not read to its
// end. `what` says what the file should hold ("a plan").
[[nodiscard]] std::string read_file(const std::string& file, const std::string& what);

}  // namespace hawser::tool
