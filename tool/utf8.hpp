// SPDX-License-Identifier: Apache-2.0
// Names of files and devices may be any bytes; JSON and HTML are UTF-8. Bytes that are not become
// U+FFFD.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace hawser::tool {

// Every byte that is no part of a character is replaced.
[[nodiscard]] std::string valid_utf8(std::string_view bytes);

// For a terminal: replaces, besides, characters that control it, which a file may hide in a name.
[[nodiscard]] std::string printable(std::string_view bytes);

// Like json.dump(indent), but it never throws: it replaces bytes that are no character.
[[nodiscard]] std::string json_text(const nlohmann::json& json, int indent = -1);

}  // namespace hawser::tool
