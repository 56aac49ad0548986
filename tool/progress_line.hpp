// SPDX-License-Identifier: Apache-2.0
// The line that shows a command's progress. On a terminal it is rewritten in place; otherwise there
// is a new one every few seconds.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string_view>

namespace hawser::tool {

class ProgressLine {
 public:
  // `out` may be null.
  explicit ProgressLine(std::FILE* out);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Whether it is time for the next line.
  [[nodiscard]] bool is_due(std::uint64_t now) const;
  void show(std::uint64_t now, std::string_view text);
  // When the last line was shown, or when the object was made.
  [[nodiscard]] std::uint64_t shown_ns() const { return shown_ns_; }

 private:
  std::FILE* out_;
  bool terminal_ = false;
  std::uint64_t shown_ns_;
  bool drawn_ = false;
};

}  // namespace hawser::tool
