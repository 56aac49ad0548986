// SPDX-License-Identifier: Apache-2.0
// The environment: FI_HAWSER_<NAME>, for the provider's own settings and for every tunable of
// Hawser, whose HAWSER_<NAME> it outweighs. docs/ofi.md lists them.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "hawser/tunables.hpp"
#include "plugin/ofi/fault_plan.hpp"

namespace hawser::ofi {

struct Config {
  std::vector<std::string> nics;
  std::optional<unsigned> threads;  // if it was set
  bool flush = true;                // a send leaves in its call
  std::string job_secret;
  std::string faults;
  std::vector<PlannedFault> fault_plan;
  std::string stats;  // "", "1", or a file
  Tunables tunables{};
  std::set<std::string, std::less<>> tunables_set;  // by the environment

  // What is better for the provider, where the environment doesn't say otherwise.
  void prefer(std::string_view tunable, std::uint64_t value);
};

// Returns what is wrong with the environment, in a sentence; "" if nothing is.
[[nodiscard]] std::string read_config(Config& config);

// Tells libfabric, so that `fi_info -e` lists them.
void define_parameters();

}  // namespace hawser::ofi
