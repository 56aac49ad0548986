// SPDX-License-Identifier: Apache-2.0
// What an engine was asked to be, checked: the strings of an EngineConfig and the environment
// turned into values.
#pragma once

#include <string>
#include <vector>

#include "engine/host/nic_spec.hpp"
#include "hawser/engine.hpp"

namespace hawser::engine {

// Every tunable for which the environment has a variable HAWSER_<NAME> takes its value. Throws
// hawser::Error if one is not a number in the tunable's range.
void apply_environment(Tunables& tunables);

struct EngineSettings {
  std::vector<NicSpec> nics;
  unsigned threads = 0;
  Tunables tunables{};
  std::string faults;
  // Off: packets over UDP have no CRC32C, at both ends of a session. For benches that ask what it
  // costs: the public API doesn't offer it.
  bool udp_checksum = true;
  [[nodiscard]] bool has_fault_layer() const { return !faults.empty(); }
};

// Throws hawser::Error. The environment outweighs the configuration's tunables.
[[nodiscard]] EngineSettings check(const EngineConfig& config);

}  // namespace hawser::engine
