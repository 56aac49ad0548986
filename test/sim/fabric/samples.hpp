// SPDX-License-Identifier: Apache-2.0
// The published samples, where they are at hand.
#pragma once

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "sim/input/connections.hpp"
#include "sim/input/topology.hpp"

namespace hawser::fabric {

// The folder that HAWSER_WORKLOADS names, else the one that was known at build.
[[nodiscard]] std::filesystem::path samples();

// False, with the reason on the test's output, where the samples are not at hand.
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

inline Shape topology(const char* name) {
  return read_topology(name, content(samples() / "htsim_cm" / name));
}

inline ConnectionMatrix matrix(const char* folder, const char* name) {
  return read_connections(name, content(samples() / folder / name));
}

}  // namespace hawser::fabric
