// SPDX-License-Identifier: Apache-2.0
#include "tool/sim/svg.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "tool/sim/html.hpp"

namespace hawser::tool {
namespace {

constexpr double kWidth = 1060;
constexpr double kLeft = 74;  // of the axes
constexpr double kRight = 1040;
constexpr double kPlotHeight = 270;
constexpr double kLetter = 7.2;  // about a letter's width at 13 px
constexpr double kLegendLine = 20;

// Okabe and Ito, "Color Universal Design" (2008), without yellow, which is invisible on white.
constexpr std::array<std::string_view, 8> kColours{"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                   "#56b4e9", "#e69f00", "#444444", "#8c564b"};

std::string text(double x, double y, std::string_view what, std::string_view more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, more, escaped(what));
}
std::string line(double x1, double y1, double x2, double y2, std::string_view more) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1,
                     x2, y2, more);
}
std::string open(double height, std::string_view title) {
  return fmt::format(
             "<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\" font-size=\"13\" "
             "fill=\"#1c2733\">\n",
             kWidth, height, escaped(title)) +
         text(0, 18, title, "font-size=\"16\" font-weight=\"600\"");
}

// The range of the axes, and their place in the picture.
class Plot {
 public:
  Plot(const Chart& chart, double top) : chart_(chart), top_(top) {
    x_most_ = chart.x_least;
    for (const ChartLine& one : chart.lines) {
      for (const auto& [x, y] : one.points) {
        x_most_ = std::max(x_most_, x);
        y_most_ = std::max(y_most_, y);
      }
    }
    y_most_ = chart.y_most > 0 ? chart.y_most : y_most_ * 1.06;
    for (const ChartMark& mark : chart.marks) x_most_ = std::max(x_most_, mark.x);
    if (!(x_most_ > chart.x_least)) x_most_ = chart.x_least + 1;
    if (!(y_most_ > 0)) y_most_ = 1;
  }

  [[nodiscard]] std::string draw() const { return axes() + marks() + lines(); }
  [[nodiscard]] double bottom() const { return top_ + kPlotHeight; }

 private:
  [[nodiscard]] double x(double value) const {
    return kLeft + (value - chart_.x_least) / (x_most_ - chart_.x_least) * (kRight - kLeft);
  }
  [[nodiscard]] double y(double value) const { return bottom() - value / y_most_ * kPlotHeight; }

  [[nodiscard]] std::string axes() const {
    std::string svg;
    for (const double at : ticks(0, y_most_, 6)) {
      svg += line(kLeft, y(at), kRight, y(at), "stroke=\"#e3e8ed\"");
      svg += text(kLeft - 8, y(at) + 4.5, short_number(at), "text-anchor=\"end\" fill=\"#44525f\"");
    }
    std::vector<double> places = ticks(chart_.x_least, x_most_, 10);
    if (!chart_.x_words.empty()) {
      places.clear();
      for (std::size_t i = 0; i < chart_.x_words.size(); ++i) places.push_back(double(i));
    }
    for (std::size_t i = 0; i < places.size(); ++i) {
      svg += line(x(places[i]), bottom(), x(places[i]), bottom() + 5, "stroke=\"#8593a0\"");
      const bool is_edge = !chart_.x_words.empty() && i + 1 == places.size() && i > 0;
      svg += text(x(places[i]), bottom() + 20,
                  chart_.x_words.empty() ? short_number(places[i]) : chart_.x_words[i],
                  is_edge ? "text-anchor=\"end\" fill=\"#44525f\""
                          : "text-anchor=\"middle\" fill=\"#44525f\"");
    }
    svg += line(kLeft, bottom(), kRight, bottom(), "stroke=\"#8593a0\"");
    svg += text((kLeft + kRight) / 2, bottom() + 40, chart_.x_name, "text-anchor=\"middle\"");
    const double middle = top_ + kPlotHeight / 2;
    return svg +
           text(16, middle, chart_.y_name,
                fmt::format("text-anchor=\"middle\" transform=\"rotate(-90 16 {:.1f})\"", middle));
  }

  [[nodiscard]] std::string marks() const {
    std::string svg;
    double free_from = 0;  // overlapping names are left out
    for (const ChartMark& mark : chart_.marks) {
      const double at = x(mark.x);
      svg += line(at, top_, at, bottom(), "stroke=\"#c0392b\" stroke-dasharray=\"5 4\"");
      if (mark.name.empty() || at < free_from) continue;
      const double width = kLetter * static_cast<double>(mark.name.size());
      const bool is_left = at + width + 8 > kRight;
      svg += text(is_left ? at - 5 : at + 5, top_ + 12, mark.name,
                  is_left ? "text-anchor=\"end\" fill=\"#c0392b\"" : "fill=\"#c0392b\"");
      free_from = at + width + 10;
    }
    return svg;
  }

  [[nodiscard]] std::string lines() const {
    std::string svg;
    for (const ChartLine& one : chart_.lines) {
      std::string points;
      std::string dots;
      for (const auto& [px, py] : one.points) {
        points += fmt::format("{:.1f},{:.1f} ", x(px), std::max(top_, y(py)));
        if (!one.dots) continue;
        dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"/>\n", x(px),
                            std::max(top_, y(py)), one.colour);
      }
      svg += fmt::format(
          "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\" "
          "stroke-linejoin=\"round\"{}/>\n",
          points, one.colour, one.dashed ? " stroke-dasharray=\"6 5\"" : "");
      svg += dots;
    }
    return svg;
  }

  const Chart& chart_;
  double top_;
  double x_most_ = 0;
  double y_most_ = 0;
};

// The names of the lines, and their total height.
std::pair<std::string, double> legend(const std::vector<ChartLine>& lines, double top) {
  std::string svg;
  double x = kLeft;
  double y = top + 12;
  for (const ChartLine& one : lines) {
    if (one.name.empty()) continue;
    const double width = 40 + kLetter * static_cast<double>(one.name.size()) + 18;
    if (x + width > kRight && x > kLeft) {
      x = kLeft;
      y += kLegendLine;
    }
    svg += line(x, y - 4, x + 30, y - 4,
                fmt::format("stroke=\"{}\" stroke-width=\"3\"{}", one.colour,
                            one.dashed ? " stroke-dasharray=\"6 5\"" : ""));
    svg += text(x + 37, y, one.name);
    x += width;
  }
  return {svg, svg.empty() ? 0 : y - top + 10};
}

// A colour from nearly white to dark blue.
std::string shade(double share) {
  struct Colour {
    double r, g, b;
  };
  constexpr std::array<Colour, 5> kStops{
      {{240, 244, 248}, {189, 215, 231}, {107, 174, 214}, {33, 113, 181}, {8, 48, 107}}};
  const double at = std::clamp(share, 0.0, 1.0) * (kStops.size() - 1);
  const auto below = std::min(static_cast<std::size_t>(at), kStops.size() - 2);
  const double rest = at - static_cast<double>(below);
  const auto mix = [&](double a, double b) { return static_cast<int>(a + (b - a) * rest + 0.5); };
  const Colour& a = kStops[below];
  const Colour& b = kStops[below + 1];
  return fmt::format("#{:02x}{:02x}{:02x}", mix(a.r, b.r), mix(a.g, b.g), mix(a.b, b.b));
}

constexpr std::size_t kShades = 32;

std::string colour_bar(const HeatMap& map, double top) {
  constexpr double kBar = 200;
  const double begin = kRight - kBar - 60;
  std::string svg;
  for (std::size_t i = 0; i < kShades; ++i) {
    svg += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"10\" fill=\"{}\"/>\n",
        begin + kBar / kShades * static_cast<double>(i), top, kBar / kShades + 0.3,
        shade(static_cast<double>(i) / (kShades - 1)));
  }
  svg += text(begin - 8, top + 10, map.unit + "  0", "text-anchor=\"end\" fill=\"#44525f\"");
  return svg +
         text(begin + kBar + 8, top + 10, fmt::format("{:.3g}", map.most), "fill=\"#44525f\"");
}

}  // namespace

std::string_view colour_of(std::size_t number) { return kColours[number % kColours.size()]; }

std::string short_number(double value) {
  const double size = std::abs(value);
  if (size >= 1e9) return fmt::format("{:g} G", value / 1e9);
  if (size >= 1e6) return fmt::format("{:g} M", value / 1e6);
  return fmt::format("{:g}", std::round(value * 1e6) / 1e6 + 0.0);  // no -0
}

std::vector<double> ticks(double least, double most, std::size_t count) {
  const double rough = (most - least) / static_cast<double>(count);
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = power;
  for (const double times : {1.0, 2.0, 5.0, 10.0}) {
    step = times * power;
    if (step >= rough * 0.999) break;
  }
  std::vector<double> places;
  for (double i = std::ceil(least / step - 1e-9); i * step <= most + step * 1e-9; ++i) {
    places.push_back(i * step);
  }
  return places;
}

std::string to_svg(const Chart& chart) {
  const auto [names, height] = legend(chart.lines, 30);
  const Plot plot(chart, 34 + height);
  return open(plot.bottom() + 48, chart.title) + names + plot.draw() + "</svg>\n";
}

std::string to_svg(const HeatMap& map) {
  const std::size_t rows = (map.cells.size() + map.columns - 1) / map.columns;
  const double width = std::min(60.0, (kRight - kLeft) / static_cast<double>(map.columns));
  const double height = std::clamp(260.0 / static_cast<double>(rows), 4.0, 22.0);
  const double top = 36;
  // One path for each shade: a fabric has thousands of cells.
  std::array<std::string, kShades> paths;
  for (std::size_t i = 0; i < map.cells.size(); ++i) {
    if (map.cells[i] < 0) continue;
    const double share = map.most > 0 ? map.cells[i] / map.most : 0;
    const auto level = static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * (kShades - 1) + 0.5);
    paths[level] +=
        fmt::format("M{:.1f} {:.1f}h{:.2f}v{:.2f}h-{:.2f}z",
                    kLeft + width * static_cast<double>(i % map.columns),
                    top + height * static_cast<double>(i / map.columns), width, height, width);
  }
  const double bottom = top + height * static_cast<double>(rows);
  std::string svg = open(bottom + 44, map.title) + colour_bar(map, 8);
  for (std::size_t i = 0; i < kShades; ++i) {
    if (paths[i].empty()) continue;
    svg += fmt::format("<path d=\"{}\" fill=\"{}\"/>\n", paths[i],
                       shade(static_cast<double>(i) / (kShades - 1)));
  }
  for (const double at : ticks(0, static_cast<double>(map.columns) - 0.5, 12)) {
    if (at != std::floor(at)) continue;
    svg += text(kLeft + width * (at + 0.5), bottom + 16, short_number(at),
                "text-anchor=\"middle\" fill=\"#44525f\"");
  }
  const double labels = std::max(1.0, std::min(6.0, height * static_cast<double>(rows) / 16));
  for (const double at :
       ticks(0, static_cast<double>(rows) - 0.5, static_cast<std::size_t>(labels))) {
    if (at != std::floor(at)) continue;
    svg += text(kLeft - 6, top + height * (at + 0.5) + 4.5, short_number(at),
                "text-anchor=\"end\" fill=\"#44525f\"");
  }
  const std::string axes = fmt::format("across: {}; down: {}", map.x_name, map.y_name);
  return svg + text(kLeft, bottom + 36, axes) + "</svg>\n";
}

}  // namespace hawser::tool
