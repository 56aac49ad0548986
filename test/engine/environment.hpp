// SPDX-License-Identifier: Apache-2.0
// Changes environment variables for the duration of a test.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hawser::engine {

class Environment {
 public:
  // Unsets `cleared` and sets `variables`. The destructor restores the former values.
  Environment(const std::vector<std::string>& cleared,
              const std::vector<std::pair<std::string, std::string>>& variables) {
    for (const std::string& name : cleared) change(name, {});
    for (const auto& [name, value] : variables) change(name, value);
  }
  ~Environment() {
    while (!before_.empty()) {
      put(before_.back().first, before_.back().second);
      before_.pop_back();
    }
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  void change(const std::string& name, const std::optional<std::string>& value) {
    const char* const old = std::getenv(name.c_str());
    before_.emplace_back(name, old == nullptr ? std::optional<std::string>() : old);
    put(name, value);
  }
  static void put(const std::string& name, const std::optional<std::string>& value) {
    if (value) {
      ::setenv(name.c_str(), value->c_str(), 1);
    } else {
      ::unsetenv(name.c_str());
    }
  }

  std::vector<std::pair<std::string, std::optional<std::string>>> before_;
};

}  // namespace hawser::engine
