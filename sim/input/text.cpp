#include "sim/input/text.hpp"

#include <algorithm>
#include <charconv>

namespace hawser::fabric {

namespace {
constexpr std::string_view kBlanks = " \t\f\v";
constexpr std::size_t kMostLines = 8'000'000;
}  // namespace

Text::Text(std::string name, std::string_view content) : name_(std::move(name)) {
  while (!content.empty()) {
    if (lines_.size() == kMostLines) {
      fail(kMostLines + 1, "a file has at most " + std::to_string(kMostLines) + " lines");
    }
    const std::size_t end = std::min(content.find('\n'), content.size());
    std::string_view line = content.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines_.push_back(line);
    content.remove_prefix(std::min(end + 1, content.size()));
  }
}

std::vector<std::string_view> Text::words(std::size_t line) const {
  std::vector<std::string_view> words;
  std::string_view rest = lines_[line - 1];
  for (;;) {
    const std::size_t begin = rest.find_first_not_of(kBlanks);
    if (begin == std::string_view::npos) return words;
    rest.remove_prefix(begin);
    if (words.empty() && rest.front() == '#') return words;
    const std::size_t end = std::min(rest.find_first_of(kBlanks), rest.size());
    words.push_back(rest.substr(0, end));
    rest.remove_prefix(end);
  }
}

void Text::fail(std::size_t line, const std::string& what) const {
  throw InputError(name_ + ":" + std::to_string(line) + ": " + what);
}

std::uint64_t Text::number(std::size_t line, std::string_view word, const std::string& what,
                           std::uint64_t least, std::uint64_t most) const {
  std::uint64_t value = 0;
  const char* const last = word.data() + word.size();
  const auto [end, error] = std::from_chars(word.data(), last, value);
  if (end != last || (error != std::errc{} && error != std::errc::result_out_of_range)) {
    fail(line, what + " must be a whole number, not " + quoted(word));
  }
  if (error != std::errc{} || value < least || value > most) {
    fail(line, what + " is " + quoted(word) + ", but must be " + std::to_string(least) + " to " +
                   std::to_string(most));
  }
  return value;
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
