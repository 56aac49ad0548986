// A text file that is being parsed: its lines, and errors that name file and line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tool/error.hpp"

namespace hawser::tool {

// No known workload file comes near these; they keep a wrong file from taking all memory.
inline constexpr std::size_t kMaxSourceBytes = std::size_t{256} << 20;
inline constexpr std::size_t kMaxLines = 8'000'000;
inline constexpr std::size_t kMaxPhases = 4'000'000;
inline constexpr std::uint64_t kMaxPhaseBytes = std::uint64_t{1} << 50;

class Source {
 public:
  // `text` outlives the source. Lines end with LF or CR LF. Throws InputError if they are too many.
  Source(std::string name, std::string_view text);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::size_t line_count() const { return lines_.size(); }
  // `number` counts from 1, as editors do.
  [[nodiscard]] std::string_view line(std::size_t number) const { return lines_[number - 1]; }
  // Throws InputError "NAME:NUMBER: WHAT".
  [[noreturn]] void fail(std::size_t number, std::string_view what) const;

  // A whole non-negative decimal number up to `maximum`; `what` names it in the error.
  [[nodiscard]] std::uint64_t number(std::size_t line_number, std::string_view word,
                                     std::string_view what, std::uint64_t maximum) const;

 private:
  std::string name_;
  std::vector<std::string_view> lines_;
};

// Words between blanks (space, tab, form feed).
[[nodiscard]] std::vector<std::string_view> words_of(std::string_view line);
// Fields between commas; an empty line has one empty field.
[[nodiscard]] std::vector<std::string_view> fields_of(std::string_view line);
[[nodiscard]] bool is_blank(std::string_view line);
// As it can stand in a message: cut, and with control characters replaced.
[[nodiscard]] std::string quoted(std::string_view word);

}  // namespace hawser::tool
