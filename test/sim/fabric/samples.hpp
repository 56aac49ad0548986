// SPDX-License-Identifier: Apache-2.0
// Access to the published samples, where they are installed.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "sim/input/connections.hpp"
#include "sim/input/topology.hpp"

namespace hawser::fabric {

// The folder that HAWSER_WORKLOADS names, or else the one known at build time.
[[nodiscard]] std::filesystem::path samples();

// False where the samples are missing; the test's output then gives the reason.
inline bool have_samples() {
  if (std::filesystem::is_directory(samples() / "htsim_cm")) return true;
  WARN("skipped: no htsim_cm in " << samples() << "; HAWSER_WORKLOADS may name their folder");
  return false;
}

inline std::string content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// A text of ASCII, in the forms in which editors and other systems save it: with a byte-order mark,
// as UTF-16, with the line ends of other systems, and with blank lines before it.
inline std::vector<std::string> saved_forms(const std::string& plain) {
  const auto wide = [&](bool little) {
    std::string bytes;
    for (const char c : plain) bytes += little ? std::string{c, '\0'} : std::string{'\0', c};
    return bytes;
  };
  std::string carriage_returns = plain;
  std::ranges::replace(carriage_returns, '\n', '\r');
  return {plain,
          "\xef\xbb\xbf" + plain,
          "\xff\xfe" + wide(true),
          "\xfe\xff" + wide(false),
          wide(true),
          wide(false),
          carriage_returns,
          "\r\n\r\n" + plain,
          "\n" + plain};
}

inline Shape topology(const char* name) {
  return read_topology(name, content(samples() / "htsim_cm" / name));
}

inline ConnectionMatrix matrix(const char* folder, const char* name) {
  return read_connections(name, content(samples() / folder / name));
}

}  // namespace hawser::fabric
