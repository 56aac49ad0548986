// SPDX-License-Identifier: Apache-2.0
#include "tool/sim/html.hpp"

#include <fmt/format.h>

#include "tool/utf8.hpp"

namespace hawser::tool {
namespace {

constexpr std::string_view kStyle = R"(
body { margin: 0; background: #f6f7f9; color: #1c2733; font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 28px 24px 48px; }
h1 { font-size: 27px; line-height: 1.25; margin: 0 0 14px; }
h2 { font-size: 19px; margin: 34px 0 10px; }
h3 { font-size: 16px; margin: 22px 0 8px; color: #44525f; }
p { margin: 6px 0 12px; }
.note { color: #5a6875; font-size: 13.5px; }
.verdict { border-left: 5px solid; border-radius: 4px; padding: 12px 16px; margin: 0 0 10px; font-size: 16px; }
.holds { background: #e7f5ec; border-color: #2c8a4b; }
.fails { background: #fdeceb; border-color: #c0392b; }
.card { background: #fff; border: 1px solid #dfe4e9; border-radius: 6px; padding: 14px 18px; margin: 0 0 16px; overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; }
th { text-align: left; font-weight: 600; color: #44525f; border-bottom: 2px solid #cfd6dd; padding: 5px 9px; vertical-align: bottom; }
td { border-bottom: 1px solid #e8ecf0; padding: 5px 9px; vertical-align: top; }
tr:last-child td { border-bottom: none; }
.numbers th:not(:first-child), .numbers td:not(:first-child) { text-align: right; font-variant-numeric: tabular-nums; }
.numbers td { white-space: nowrap; }
td small { display: block; color: #74828f; }
svg { display: block; width: 100%; height: auto; }
svg + svg { margin-top: 16px; }
svg text { font-family: system-ui, "DejaVu Sans", sans-serif; }
summary { cursor: pointer; color: #2b5c8a; }
)";

// U+FFFD, which stands for what can't be shown. It has as many bytes as the text that it replaces
// here.
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// U+FFFE and U+FFFF are of UTF-8, but XML has no way to say them, not even by number.
bool is_no_character(std::string_view text) {
  return text.starts_with("\xEF\xBF\xBE") || text.starts_with("\xEF\xBF\xBF");
}

}  // namespace

std::string escaped(std::string_view bytes) {
  const std::string valid = valid_utf8(bytes);
  const std::string_view text = valid;
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    if (is_no_character(text.substr(i))) {
      out += kReplacement;
      i += kReplacement.size() - 1;
      continue;
    }
    switch (letter) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default:
        // XML has no name for other control characters.
        out += static_cast<unsigned char>(letter) < ' ' && letter != '\n' && letter != '\t'
                   ? ' '
                   : letter;
    }
  }
  return out;
}

std::string to_html(const HtmlTable& table) {
  std::string html = table.numbers ? "<table class=\"numbers\">\n" : "<table>\n";
  if (!table.head.empty()) {
    html += "<tr>";
    for (const std::string& one : table.head) html += "<th>" + escaped(one) + "</th>";
    html += "</tr>\n";
  }
  for (const std::vector<std::string>& row : table.rows) {
    html += "<tr>";
    for (const std::string& one : row) html += "<td>" + one + "</td>";
    html += "</tr>\n";
  }
  return html + "</table>\n";
}

std::string html_page(std::string_view title, std::string_view body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n<main>\n{}</main>\n</body>\n</"
      "html>\n",
      escaped(title), kStyle, body);
}

}  // namespace hawser::tool
