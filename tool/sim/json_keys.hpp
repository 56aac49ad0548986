// SPDX-License-Identifier: Apache-2.0
// One object of a JSON file. Its keys are taken one after the other. Missing keys are errors, and
// so are those left over at the end.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "tool/strict_json.hpp"

namespace hawser::tool {

class JsonKeys {
 public:
  // `json` outlives it. Throws InputError, as all calls do, with the path of the key.
  JsonKeys(const nlohmann::json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json.is_object()) refuse(where_, "an object is expected");
    for (const auto& [name, value] : json.items()) unknown_.insert(name);
  }

  // To be called at the end of its use: refuses keys that nobody has taken.
  void finish() const {
    if (!unknown_.empty()) refuse(where_, fmt::format("there is no key '{}'", *unknown_.begin()));
  }

  [[nodiscard]] std::string path(std::string_view name) const {
    return where_.empty() ? std::string(name) : fmt::format("{}.{}", where_, name);
  }
  [[nodiscard]] const std::string& where() const { return where_; }
  [[nodiscard]] bool has(const std::string& name) const { return json_.contains(name); }

  // Null if the key is not there.
  [[nodiscard]] const nlohmann::json* find(const std::string& name) {
    unknown_.erase(name);
    const auto found = json_.find(name);
    return found == json_.end() ? nullptr : &*found;
  }
  [[nodiscard]] const nlohmann::json& need(const std::string& name) {
    const nlohmann::json* const found = find(name);
    if (found == nullptr) refuse(where_, fmt::format("'{}' is missing", name));
    return *found;
  }

  template <class T>
  [[nodiscard]] T number(const std::string& name, T least, T most) {
    T value{};
    read_number(need(name), path(name), value);
    if (!(value >= least && value <= most)) {
      refuse(path(name), fmt::format("{} is not {} to {}", value, least, most));
    }
    return value;
  }
  template <class T>
  [[nodiscard]] T number_or(const std::string& name, T usual, T least, T most) {
    return has(name) ? number<T>(name, least, most) : usual;
  }
  [[nodiscard]] bool flag_or(const std::string& name, bool usual) {
    if (const nlohmann::json* const found = find(name)) read_number(*found, path(name), usual);
    return usual;
  }
  [[nodiscard]] std::string text(const std::string& name) {
    const nlohmann::json& found = need(name);
    if (!found.is_string()) refuse(path(name), "a text is expected");
    return found.get<std::string>();
  }
  [[nodiscard]] std::string text_or(const std::string& name, std::string usual) {
    return has(name) ? text(name) : usual;
  }
  template <class T>
  [[nodiscard]] T name(const std::string& key, std::span<const std::string_view> names) {
    T value{};
    if (!read_name(need(key), names, value)) refuse_name(path(key), names);
    return value;
  }
  template <class T>
  [[nodiscard]] T name_or(const std::string& key, std::span<const std::string_view> names,
                          T usual) {
    return has(key) ? name<T>(key, names) : usual;
  }
  // The keys that have not been taken yet.
  [[nodiscard]] std::set<std::string> rest() const { return unknown_; }

 private:
  const nlohmann::json& json_;
  std::string where_;
  std::set<std::string> unknown_;
};

}  // namespace hawser::tool
