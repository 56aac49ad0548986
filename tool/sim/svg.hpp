// SPDX-License-Identifier: Apache-2.0
// Pictures as SVG inside a page: lines over two axes, and maps of cells.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hawser::tool {

// Colours that are easy to tell apart, for the colour-blind too; after eight they repeat.
[[nodiscard]] std::string_view colour_of(std::size_t number);

struct ChartLine {
  std::string name;
  std::string colour;
  std::vector<std::pair<double, double>> points;
  bool dashed = false;
  bool dots = false;  // at its points
};

struct ChartMark {
  double x = 0;
  std::string name;
};

// All values are 0 or more.
struct Chart {
  std::string title;
  std::string x_name;  // with its unit, as is the next
  std::string y_name;
  std::vector<ChartLine> lines;
  std::vector<ChartMark> marks;      // vertical lines
  std::vector<std::string> x_words;  // at x 0, 1, 2 ... instead of numbers
  double x_least = 0;                // where the axis begins
  double y_most = 0;                 // where it ends; 0: a little above all lines
};
[[nodiscard]] std::string to_svg(const Chart& chart);

struct HeatMap {
  std::string title;
  std::string x_name;
  std::string y_name;
  std::string unit;  // of the colours
  std::size_t columns = 0;
  std::vector<double> cells;  // row by row, from the top; below 0: there is none
  double most = 1;            // that the darkest colour stands for
};
[[nodiscard]] std::string to_svg(const HeatMap& map);

// The number in the shortest form for an axis.
[[nodiscard]] std::string short_number(double value);
// About `count` equal steps of 1, 2 or 5 times a power of ten, from `least` or above to `most`.
[[nodiscard]] std::vector<double> ticks(double least, double most, std::size_t count);

}  // namespace hawser::tool
