// SPDX-License-Identifier: Apache-2.0
// Reads JSON that people wrote. Anything unexpected is an error that says where it is.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tool/error.hpp"

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
