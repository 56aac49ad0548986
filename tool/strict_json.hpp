// SPDX-License-Identifier: Apache-2.0
// Reads JSON that people wrote. Anything unexpected is an error that says where it is.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tool/error.hpp"
#include "tool/utf8.hpp"

namespace hawser::tool {

// Throws InputError. `where` is the path of keys; empty for the whole.
[[noreturn]] inline void refuse(const std::string& where, std::string_view what) {
  throw InputError(where.empty() ? std::string(what) : fmt::format("{}: {}", where, what));
}

inline void refuse_above(const std::string& where, std::uint64_t number, std::uint64_t most) {
  if (number > most) refuse(where, fmt::format("{} is more than {}", number, most));
}

// Lists the valid names, after an invalid one.
[[noreturn]] inline void refuse_name(const std::string& where,
                                     std::span<const std::string_view> names) {
  refuse(where, fmt::format("one of these is expected: {}", fmt::join(names, ", ")));
}

// Parses a plan. Refuses text that nlohmann-json accepts: it takes the last of equal keys, and a
// NUL as the end. Text that is not UTF-8 is refused here, since the parser would repeat its bytes.
// Deep nesting would be read, but copies and other uses of such a value recurse, and overflow the
// stack. Throws InputError, or nlohmann::json::exception for what is no JSON.
[[nodiscard]] inline nlohmann::json parse_strictly(const std::string& text) {
  using Json = nlohmann::json;
  constexpr int kDeepest = 32;  // a plan has about six levels
  if (const std::size_t at = text.find('\0'); at != std::string::npos) {
    refuse("", fmt::format("byte {} is a NUL, which a plan can't contain", at + 1));
  }
  if (const std::string valid = valid_utf8(text); valid != text) {
    const auto at = std::ranges::mismatch(text, valid).in1;
    refuse("", fmt::format("line {} is not UTF-8, as a plan must be",
                           1 + std::count(text.begin(), at, '\n')));
  }
  std::vector<std::set<std::string>> open;
  const auto look = [&](int depth, Json::parse_event_t event, Json& parsed) {
    using Event = Json::parse_event_t;
    const bool is_start = event == Event::object_start || event == Event::array_start;
    if (is_start && depth >= kDeepest) {
      refuse("", fmt::format("lists and objects are nested more than {} deep", kDeepest));
    }
    if (event == Event::object_start) open.emplace_back();
    if (event == Event::object_end) open.pop_back();
    if (event == Event::key && !open.back().insert(parsed.get<std::string>()).second) {
      refuse("", fmt::format("the key '{}' occurs twice", parsed.get<std::string>()));
    }
    return true;
  };
  return Json::parse(text, look);
}

// Reads a number or truth value of T's kind and range; refuses anything else.
template <class T>
void read_number(const nlohmann::json& json, const std::string& where, T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    if (!json.is_boolean()) refuse(where, "true or false is expected");
    value = json.get<bool>();
  } else if constexpr (std::is_floating_point_v<T>) {
    if (!json.is_number()) refuse(where, "a number is expected");
    value = json.get<T>();
  } else if constexpr (std::is_signed_v<T>) {
    const bool fits = json.is_number_unsigned()
                          ? json.get<std::uint64_t>() <= std::uint64_t{1} << 62
                          : json.is_number_integer();
    if (!fits) refuse(where, "a whole number is expected");
    value = json.get<T>();
  } else {
    const bool fits =
        json.is_number_unsigned() || (json.is_number_integer() && json.get<std::int64_t>() >= 0);
    if (!fits) refuse(where, "a whole number of 0 or more is expected");
    const auto number = json.get<std::uint64_t>();
    refuse_above(where, number, std::numeric_limits<T>::max());
    value = static_cast<T>(number);
  }
}

// Reads a name, whose place in `names` is the enumerator; false if it is none of them.
template <class T>
bool read_name(const nlohmann::json& json, std::span<const std::string_view> names, T& value) {
  const auto name = json.is_string() ? json.get<std::string>() : std::string{};
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return false;
  value = static_cast<T>(found - names.begin());
  return true;
}

}  // namespace hawser::tool
