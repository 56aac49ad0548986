// SPDX-License-Identifier: Apache-2.0
// The parts of pictures that numbers can check.
#include "tool/sim/svg.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "tool/sim/html.hpp"

namespace hawser::tool {
namespace {

std::size_t times(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    ++count;
  }
  return count;
}

TEST_CASE("sim_svg__ticks_are_round_and_within") {
  CHECK(ticks(0, 1, 5) == std::vector<double>{0, 0.2, 0.4, 0.6000000000000001, 0.8, 1});
  CHECK(ticks(0, 255, 10).back() == 250);
  CHECK(ticks(170, 264, 10).front() == 170);
  CHECK(ticks(0, 63.5, 12).size() == 7);
  for (const double most : {1e-6, 0.03, 7.0, 12345.0, 9e12}) {
    const auto places = ticks(0, most, 8);
    CHECK(places.size() >= 4);
    CHECK(places.size() <= 10);
    CHECK(places.back() <= most * 1.0001);
  }
}

TEST_CASE("sim_svg__numbers_are_short") {
  CHECK(short_number(0) == "0");
  CHECK(short_number(-1e-12) == "0");
  CHECK(short_number(0.2 * 3) == "0.6");
  CHECK(short_number(25'000) == "25000");
  CHECK(short_number(2'500'000) == "2.5 M");
}

TEST_CASE("sim_svg__each_line_is_drawn_and_named") {
  Chart chart;
  chart.title = "Times & shares";
  chart.lines = {{"one", "#123456", {{0, 0}, {10, 5}}}, {"two", "#654321", {{0, 1}, {5, 2}}, true}};
  chart.marks = {{5, "fault"}};
  const std::string svg = to_svg(chart);
  CHECK(times(svg, "<polyline") == 2);
  CHECK(times(svg, ">one</text>") == 1);
  CHECK(times(svg, ">fault</text>") == 1);
  CHECK(times(svg, "Times &amp; shares") == 2);
  // The line reaches from the left end of the axis to its right end.
  CHECK(svg.find("points=\"74.0,") != std::string::npos);
  CHECK(svg.find("1040.0,") != std::string::npos);
}

TEST_CASE("sim_svg__a_map_has_a_cell_for_each_value") {
  HeatMap map;
  map.columns = 16;
  for (int i = 0; i < 128; ++i) map.cells.push_back(i % 7 == 0 ? -1 : i / 128.0);
  const std::string svg = to_svg(map);
  CHECK(times(svg, "z") >= 128 - 19);
  CHECK(times(svg, "M") == 128 - 19);
  // If nothing is used, all cells have one shade.
  map.cells.assign(32, 0);
  map.most = 0;
  CHECK(times(to_svg(map), "<path") == 1);
}

TEST_CASE("sim_html__what_people_write_stays_text") {
  CHECK(escaped("a<b>&\"c\"") == "a&lt;b&gt;&amp;&quot;c&quot;");
  CHECK(escaped("caf\xe9 \xc3\xa9 \xf0\x9f") ==
        "caf\xEF\xBF\xBD \xc3\xa9 \xEF\xBF\xBD\xEF\xBF\xBD");
  CHECK(escaped(std::string("a\x01"
                            "b")) == "a b");
}

}  // namespace
}  // namespace hawser::tool
