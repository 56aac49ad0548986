// SPDX-License-Identifier: Apache-2.0
// What a person sees while ranks run. On a terminal it is a table that is drawn anew, otherwise a
// line now and then. Notes of what happened stand above it, in order.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "tool/run/report.hpp"

namespace hawser::tool {

class Display {
 public:
  // `out` is where the display goes; it draws a table if that is a terminal.
  Display(std::FILE* out, std::uint32_t ranks);
  ~Display();  // wipes the table
  Display(const Display&) = delete;
  Display& operator=(const Display&) = delete;

  void progress(std::uint32_t rank, Progress progress);
  // A line that stays.
  void note(std::string_view text);
  // Draws if it is time.
  void refresh(std::uint64_t now_ns);

 private:
  void draw(std::uint64_t now_ns);
  void wipe();
  [[nodiscard]] std::string table(double interval_s) const;
  [[nodiscard]] std::string line(double interval_s) const;
  [[nodiscard]] double least_done() const;

  std::FILE* out_;
  bool terminal_;
  std::vector<Progress> ranks_;
  std::vector<std::uint64_t> bytes_before_;  // of each NIC, all ranks, when last drawn
  std::uint64_t drawn_ns_ = 0;
  std::size_t lines_ = 0;  // of the table on the screen
};

}  // namespace hawser::tool
