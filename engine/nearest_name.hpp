// SPDX-License-Identifier: Apache-2.0
// Finds the name that a misspelt one most likely meant.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace hawser::engine {

// Levenshtein distance (1966): letters to insert, leave out or replace until one name is the other.
[[nodiscard]] inline std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

// Returns the nearest element of `known`, which must not be empty.
[[nodiscard]] inline const std::string& nearest_name(std::string_view name,
                                                     const std::vector<std::string>& known) {
  return *std::ranges::min_element(
      known, {}, [&](const std::string& other) { return edit_distance(name, other); });
}

}  // namespace hawser::engine
