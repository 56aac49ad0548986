// SPDX-License-Identifier: Apache-2.0
// Access to the published samples, where they are installed.
#pragma once

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

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

inline Shape topology(const char* name) {
  return read_topology(name, content(samples() / "htsim_cm" / name));
}

inline ConnectionMatrix matrix(const char* folder, const char* name) {
  return read_connections(name, content(samples() / folder / name));
}

}  // namespace hawser::fabric
