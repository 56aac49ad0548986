// SPDX-License-Identifier: Apache-2.0
// The checked configuration of an engine: the strings of an EngineConfig and of the environment,
// parsed into values.
#pragma once

#include <string>
#include <vector>

#include "engine/host/nic_spec.hpp"
#include "hawser/engine.hpp"

namespace hawser::engine {

// Overrides every tunable whose variable HAWSER_<NAME> is set. Throws hawser::Error if a value is
// not a number in the tunable's range.
void apply_environment(Tunables& tunables);

struct EngineSettings {
  std::vector<NicSpec> nics;
  unsigned threads = 0;
  Tunables tunables{};
  std::string faults;
  // False: packets over UDP carry no CRC32C, at both ends of a session. Only benchmarks of its cost
  // use this, and the public API doesn't offer it.
  bool udp_checksum = true;
  [[nodiscard]] bool has_fault_layer() const { return !faults.empty(); }
};

// Throws hawser::Error. The environment overrides the configuration's tunables.
[[nodiscard]] EngineSettings check(const EngineConfig& config);

}  // namespace hawser::engine
