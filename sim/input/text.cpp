// SPDX-License-Identifier: Apache-2.0
#include "sim/input/text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "sim/input/characters.hpp"
#include "sim/input/encoding.hpp"

namespace hawser::fabric {

namespace {

// Cuts the meaningless fraction of "8388608.0".
std::string_view without_zero_fraction(std::string_view word) {
  const std::size_t point = word.find('.');
  if (point == std::string_view::npos || point == 0 || point + 1 == word.size()) return word;
  return word.find_first_not_of('0', point + 1) == std::string_view::npos ? word.substr(0, point)
                                                                          : word;
}

}  // namespace

Text::Text(std::string name, std::string_view content) : name_(std::move(name)) {
  const std::string_view text = as_utf8(content, converted_);
  // A binary format is known by its bytes, and JSON in any encoding by its characters.
  for (const std::string_view form : {content, text}) {
    if (const std::string what = foreign_format(form); !what.empty()) fail(1, what);
  }
  split(text);
}

void Text::split(std::string_view content) {
  while (!content.empty()) {
    if (lines_.size() == kMostLines) {
      fail(kMostLines + 1, "a file has at most " + std::to_string(kMostLines) + " lines");
    }
    const std::size_t end = std::min(content.find_first_of("\r\n"), content.size());
    const std::string_view line = content.substr(0, end);
    lines_.push_back(line);
    if (line.find('\0') != std::string_view::npos) {
      fail(lines_.size(), "the line has a NUL, so the file is binary: name a text file");
    }
    const bool ends_with_two = content.substr(end).starts_with("\r\n");
    content.remove_prefix(std::min(end + (ends_with_two ? 2 : 1), content.size()));
  }
}

bool Text::says_nothing(std::size_t line) const {
  const std::size_t first = lines_[line - 1].find_first_not_of(kBlanks);
  return first == std::string_view::npos || lines_[line - 1][first] == '#';
}

std::vector<std::string_view> Text::words(std::size_t line) const {
  std::vector<std::string_view> words;
  std::string_view rest = lines_[line - 1];
  for (;;) {
    const std::size_t begin = rest.find_first_not_of(kBlanks);
    if (begin == std::string_view::npos) return words;
    rest.remove_prefix(begin);
    if (rest.front() == '#') return words;
    const std::size_t end = std::min(rest.find_first_of(kBlanks), rest.size());
    words.push_back(rest.substr(0, end));
    rest.remove_prefix(end);
  }
}

std::string Text::note(std::size_t line, const std::string& what) const {
  return name_ + ":" + std::to_string(line) + ": " + what;
}

void Text::fail(std::size_t line, const std::string& what) const {
  throw InputError(note(line, what));
}

std::uint64_t Text::number(std::size_t line, std::string_view word, const std::string& what,
                           std::uint64_t least, std::uint64_t most) const {
  const std::string_view digits = without_zero_fraction(word);
  std::uint64_t value = 0;
  const char* const last = digits.data() + digits.size();
  const auto [end, error] = std::from_chars(digits.data(), last, value);
  if (end != last || (error != std::errc{} && error != std::errc::result_out_of_range)) {
    fail(line, what + " must be a whole number, not " + quoted(word));
  }
  if (error != std::errc{} || value < least || value > most) {
    fail(line, what + " is " + quoted(word) + ", but must be " + std::to_string(least) + " to " +
                   std::to_string(most));
  }
  return value;
}

std::int64_t Text::thousandths(std::size_t line, std::string_view word, const std::string& what,
                               std::uint64_t most) const {
  constexpr double kThousand = 1000;
  double value = 0;
  const char* const last = word.data() + word.size();
  const auto [end, error] = std::from_chars(word.data(), last, value, std::chars_format::fixed);
  const bool is_number = end == last && !word.empty() && is_digit(word.front());
  if (!is_number || (error != std::errc{} && error != std::errc::result_out_of_range)) {
    fail(line, what + " must be a number, not " + quoted(word));
  }
  if (error != std::errc{} || value > static_cast<double>(most)) {
    fail(line, what + " is " + quoted(word) + ", but must be 0 to " + std::to_string(most));
  }
  return std::llround(value * kThousand);
}

std::string quoted(std::string_view word) {
  constexpr std::size_t kLongest = 40;
  std::string text(word.substr(0, kLongest));
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return "'" + text + (word.size() > kLongest ? "..." : "") + "'";
}

}  // namespace hawser::fabric
