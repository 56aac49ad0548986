#include "tool/workload/source.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

namespace hawser::tool {
namespace {

constexpr std::string_view kBlanks = " \t\f\v";

}  // namespace

Source::Source(std::string name, std::string_view text) : name_(std::move(name)) {
  while (!text.empty()) {
    if (lines_.size() == kMaxLines) {
      fail(kMaxLines + 1, fmt::format("a workload has at most {} lines", kMaxLines));
    }
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines_.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

void Source::fail(std::size_t number, std::string_view what) const {
  throw InputError(fmt::format("{}:{}: {}", name_, number, what));
}

std::uint64_t Source::number(std::size_t line_number, std::string_view word, std::string_view what,
                             std::uint64_t maximum) const {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error == std::errc::result_out_of_range || (error == std::errc{} && value > maximum)) {
    fail(line_number, fmt::format("{} is {}; the most is {}", what, quoted(word), maximum));
  }
  if (error != std::errc{} || end != word.data() + word.size()) {
    fail(line_number, fmt::format("{} must be a whole number, not {}", what, quoted(word)));
  }
  return value;
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (;;) {
    const std::size_t begin = line.find_first_not_of(kBlanks);
    if (begin == std::string_view::npos) return words;
    line.remove_prefix(begin);
    const std::size_t end = std::min(line.find_first_of(kBlanks), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  for (;;) {
    const std::size_t comma = line.find(',');
    fields.push_back(line.substr(0, comma));
    if (comma == std::string_view::npos) return fields;
    line.remove_prefix(comma + 1);
  }
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(kBlanks) == std::string_view::npos;
}

std::string quoted(std::string_view word) {
  constexpr std::size_t kLongest = 40;
  std::string text(word.substr(0, kLongest));
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return fmt::format("'{}{}'", text, word.size() > kLongest ? "..." : "");
}

}  // namespace hawser::tool
