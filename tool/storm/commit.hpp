// SPDX-License-Identifier: Apache-2.0
// The commit from which this command was built. The build writes the other half
// (cmake/commit.cmake).
#pragma once

#include <string_view>

namespace hawser::tool {

// "1234567890ab", with "+changes" behind it if the tree differed from it; "unknown" outside git.
[[nodiscard]] std::string_view commit();

}  // namespace hawser::tool
