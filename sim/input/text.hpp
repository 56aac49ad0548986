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
  // `content` outlives the text. Lines end with LF or CR LF. Throws InputError if they are too
  // many.
  Text(std::string name, std::string_view content);

  [[nodiscard]] std::size_t lines() const { return lines_.size(); }
  // A line as it is, which counts from 1.
  [[nodiscard]] std::string_view line(std::size_t line) const { return lines_[line - 1]; }
  // The words of a line, which counts from 1; none if it is blank or begins with '#'.
  [[nodiscard]] std::vector<std::string_view> words(std::size_t line) const;
  // Throws InputError "NAME:LINE: WHAT".
  [[noreturn]] void fail(std::size_t line, const std::string& what) const;
  // A whole decimal number from `least` to `most`; `what` names it in the error.
  [[nodiscard]] std::uint64_t number(std::size_t line, std::string_view word,
                                     const std::string& what, std::uint64_t least,
                                     std::uint64_t most) const;

 private:
  std::string name_;
  std::vector<std::string_view> lines_;
};

// As it can stand in a message: cut, and with control characters replaced.
[[nodiscard]] std::string quoted(std::string_view word);

}  // namespace hawser::fabric
