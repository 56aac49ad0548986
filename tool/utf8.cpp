// SPDX-License-Identifier: Apache-2.0
#include "tool/utf8.hpp"

#include <boost/locale/utf.hpp>

namespace hawser::tool {

namespace {

namespace utf = boost::locale::utf;

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

template <class Keeps>
std::string filtered(std::string_view bytes, Keeps keeps) {
  std::string text;
  text.reserve(bytes.size());
  for (auto at = bytes.begin(); at != bytes.end();) {
    auto end = at;
    const utf::code_point character = utf::utf_traits<char>::decode(end, bytes.end());
    if (character == utf::illegal || character == utf::incomplete) {
      text += kReplacement;
      ++at;
      continue;
    }
    if (keeps(character)) {
      text.append(at, end);
    } else {
      text += kReplacement;
    }
    at = end;
  }
  return text;
}

// C0, DEL and C1.
bool is_control(utf::code_point character) {
  return character < 0x20 || (character >= 0x7F && character < 0xA0);
}

}  // namespace

std::string valid_utf8(std::string_view bytes) {
  return filtered(bytes, [](utf::code_point) { return true; });
}

std::string printable(std::string_view bytes) {
  return filtered(bytes, [](utf::code_point character) { return !is_control(character); });
}

std::string json_text(const nlohmann::json& json, int indent) {
  return json.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace hawser::tool
