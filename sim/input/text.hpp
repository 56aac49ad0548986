// SPDX-License-Identifier: Apache-2.0
// A text file that is being read: its lines and words, and errors that name file and line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/fabric/input_error.hpp"

namespace hawser::fabric {

class Text {
 public:
  static constexpr std::size_t kMostLines = 8'000'000;

  // `content` outlives the text. It may begin with a byte-order mark or be UTF-16. Lines end with
  // LF, CR LF or CR. Throws InputError if it is no text, or if the lines are too many.
  Text(std::string name, std::string_view content);
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::size_t lines() const { return lines_.size(); }
  // A line as it is; lines count from 1.
  [[nodiscard]] std::string_view line(std::size_t line) const { return lines_[line - 1]; }
  // Whether a line has no content: it is blank, or its first character other than blanks is '#'.
  [[nodiscard]] bool says_nothing(std::size_t line) const;
  // The words of a line, which counts from 1, up to the first that begins with '#'.
  [[nodiscard]] std::vector<std::string_view> words(std::size_t line) const;
  // Throws InputError "NAME:LINE: WHAT".
  [[noreturn]] void fail(std::size_t line, const std::string& what) const;
  // "NAME:LINE: WHAT", for errors after which the reader goes on.
  [[nodiscard]] std::string note(std::size_t line, const std::string& what) const;
  // A whole decimal number from `least` to `most`; `what` names it in the error. Generators write
  // some as floats: 8388608.0 is whole as well.
  [[nodiscard]] std::uint64_t number(std::size_t line, std::string_view word,
                                     const std::string& what, std::uint64_t least,
                                     std::uint64_t most) const;
  // A decimal number from 0 to `most`, in thousandths, rounded: 1.5 is 1500.
  [[nodiscard]] std::int64_t thousandths(std::size_t line, std::string_view word,
                                         const std::string& what, std::uint64_t most) const;

 private:
  void split(std::string_view content);

  std::string name_;
  std::string converted_;
  std::vector<std::string_view> lines_;
};

// The word in a form for messages: cut, and with control characters replaced.
[[nodiscard]] std::string quoted(std::string_view word);

}  // namespace hawser::fabric
