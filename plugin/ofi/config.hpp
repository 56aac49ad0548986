// SPDX-License-Identifier: Apache-2.0
// The environment: FI_HAWSER_<NAME>, for the provider's own settings and for every tunable of
// Hawser. It overrides HAWSER_<NAME>. docs/ofi.md lists the variables.
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
  std::optional<unsigned> threads;  // empty: not set
  bool flush = true;                // a send leaves during its call
  std::string job_secret;
  std::string faults;
  std::vector<PlannedFault> fault_plan;
  std::string stats;  // "", "1", or a file
  Tunables tunables{};
  std::set<std::string, std::less<>> tunables_set;  // tunables that the environment sets

  // Sets a value that suits the provider better, unless the environment sets the tunable.
  void prefer(std::string_view tunable, std::uint64_t value);
};

// Returns a sentence about what is wrong with the environment; "" if nothing is.
[[nodiscard]] std::string read_config(Config& config);

// Registers the variables with libfabric, so that `fi_info -e` lists them.
void define_parameters();

}  // namespace hawser::ofi
