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
    "This page is for users who tune Hawser: it lists every number that may be changed. Most\n"
    "readers need none of them, or one of these:\n"
    "\n"
    "- `peer_timeout_ms`: how long a silent peer counts as alive.\n"
    "- `max_peers`: for endpoints with more than 256 peers.\n"
    "- `max_operations`, `max_messages_per_peer`: for programs that get `again` too often.\n"
    "- `unexpected_bytes`, `max_receive_messages`: for many messages without a receive.\n"
    "- `nic_receive_bytes`: if the report shows *overruns*.\n"
    "- `spin_us`: for hosts with more busy threads than processors.\n"
    "\n"
    "Set a tunable by the environment variable `HAWSER_<NAME>` in capitals, by the option\n"
    "`hawser run --tunable NAME=VALUE`, or in a program by `hawser::Tunables`. `hawser info`\n"
    "prints the same rows with the values in force. The glossary\n"
    "(`docs/internals/glossary.md`) explains the words.\n"
    "\n"
    "The rows come from `include/hawser/tunables.hpp`, which also has the range that stress\n"
    "tests draw from. `print_tunables docs/tunables.md --update` (in the build's `test/style`)\n"
    "writes this page, and a test compares it with the table.\n"
    "\n"
    "| name | unit | default | range | what it is, and why |\n"
    "|---|---|--:|--:|---|\n";

std::string range(std::uint64_t low, std::uint64_t high) {
  return std::to_string(low) + " to " + std::to_string(high);
}

std::string page() {
  std::string text(kHead);
  for (const hawser::TunableRow& row : hawser::kTunables) {
    text.append("| `").append(row.name).append("` | ").append(row.unit).append(" | ");
    text.append(std::to_string(row.default_value)).append(" | ");
    text.append(range(row.minimum, row.maximum)).append(" | ");
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
