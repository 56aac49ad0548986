// SPDX-License-Identifier: Apache-2.0
// What a person sees while ranks run. On a terminal it is a table that is drawn anew, otherwise a
// line now and then. Notes of what happened stand above it, in order.
//
// Writing never blocks, except in the destructor. The reader may be a pager that waits for a key,
// or a terminal that is held, and the launcher listens to its signals and its ranks meanwhile.
// Notes wait until the reader goes on; tables and lines of progress are left out.
#pragma once

#include <cstddef>
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
  ~Display();  // wipes the table, and writes the notes that still wait
  Display(const Display&) = delete;
  Display& operator=(const Display&) = delete;

  void progress(std::uint32_t rank, Progress progress);
  // A line that stays.
  void note(std::string_view text);
  // Draws if it is time.
  void refresh(std::uint64_t now_ns);
  // Writes what waits, as far as the reader takes it.
  void flush();
  // Whether so much waits that the ranks' output should stay in their pipes, until they wait too.
  [[nodiscard]] bool is_behind() const { return waiting_.size() > kMostWaiting; }

 private:
  static constexpr std::size_t kMostWaiting = 256 * 1024;

  void draw(std::uint64_t now_ns);
  void wipe();
  [[nodiscard]] bool would_block() const;
  [[nodiscard]] std::string table(double interval_s) const;
  [[nodiscard]] std::string line(double interval_s) const;
  [[nodiscard]] double least_done() const;

  std::FILE* out_;
  bool terminal_;
  std::vector<Progress> ranks_;
  std::vector<std::uint64_t> bytes_before_;  // of each NIC, all ranks, when last drawn
  std::uint64_t drawn_ns_ = 0;
  std::size_t lines_ = 0;  // of the table on the screen
  std::string waiting_;    // what is not written yet
};

}  // namespace hawser::tool
