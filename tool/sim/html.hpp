// SPDX-License-Identifier: Apache-2.0
// Text and tables as HTML that is also valid XML.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hawser::tool {

[[nodiscard]] std::string escaped(std::string_view text);

// The first column names the row; the others are right-aligned numbers, if `numbers`.
struct HtmlTable {
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;  // escaped already
  bool numbers = true;
};
[[nodiscard]] std::string to_html(const HtmlTable& table);

// The whole file.
[[nodiscard]] std::string html_page(std::string_view title, std::string_view body);

}  // namespace hawser::tool
