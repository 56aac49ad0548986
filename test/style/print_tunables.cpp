// SPDX-License-Identifier: Apache-2.0
// Compares a page with the table of tunables in include/hawser/tunables.hpp, or writes the page:
//   print_tunables docs/tunables.md [--update]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "hawser/tunables.hpp"

namespace {

constexpr std::string_view kHead =
    "# Tunables\n"
    "\n"
    "This page lists every number of Hawser that you may change. `hawser info` prints the same\n"
    "rows with the values in force.\n"
    "\n"
    "You can set a tunable in a `hawser::Tunables` value, by its `set(name, value)`, or by the\n"
    "environment variable `HAWSER_<NAME>` in capitals. *Hostile* is the range that stress tests\n"
    "draw from. Values there may make the engine slow, never wrong.\n"
    "\n"
    "The rows come from the one table in `include/hawser/tunables.hpp`. The command\n"
    "`print_tunables docs/tunables.md --update` (in the build's `test/style`) writes this page.\n"
    "A test compares the page with the table.\n"
    "\n"
    "| name | unit | default | range | hostile | what it is, and why |\n"
    "|---|---|--:|--:|--:|---|\n";

std::string range(std::uint64_t low, std::uint64_t high) {
  return std::to_string(low) + " to " + std::to_string(high);
}

std::string page() {
  std::string text(kHead);
  for (const hawser::TunableRow& row : hawser::kTunables) {
    text.append("| `").append(row.name).append("` | ").append(row.unit).append(" | ");
    text.append(std::to_string(row.default_value)).append(" | ");
    text.append(range(row.minimum, row.maximum)).append(" | ");
    text.append(range(row.hostile_low, row.hostile_high)).append(" | ");
    text.append(row.reason).append(" |\n");
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: print_tunables PAGE [--update]\n");
    return 2;
  }
  const std::string wanted = page();
  if (argc > 2 && std::string_view(argv[2]) == "--update") {
    std::ofstream out(argv[1]);
    out << wanted;
    return out.flush() ? 0 : 1;
  }
  std::ifstream in(argv[1]);
  const std::string found{std::istreambuf_iterator<char>(in), {}};
  if (found == wanted) return 0;
  const auto difference = std::mismatch(found.begin(), found.end(), wanted.begin(), wanted.end());
  const auto line = 1 + std::count(found.begin(), difference.first, '\n');
  std::fprintf(stderr, "%s:%ld: differs from the table; run print_tunables with --update\n",
               argv[1], static_cast<long>(line));
  return 1;
}
