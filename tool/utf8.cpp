// SPDX-License-Identifier: Apache-2.0
#include "tool/utf8.hpp"

#include <boost/locale/utf.hpp>

namespace hawser::tool {

std::string valid_utf8(std::string_view bytes) {
  namespace utf = boost::locale::utf;
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  std::string text;
  text.reserve(bytes.size());
  for (auto at = bytes.begin(); at != bytes.end();) {
    auto end = at;
    const utf::code_point character = utf::utf_traits<char>::decode(end, bytes.end());
    if (character == utf::illegal || character == utf::incomplete) {
      text += kReplacement;
      ++at;
    } else {
      text.append(at, end);
      at = end;
    }
  }
  return text;
}

std::string json_text(const nlohmann::json& json, int indent) {
  return json.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace hawser::tool
