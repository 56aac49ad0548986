// SPDX-License-Identifier: Apache-2.0
// The injected faults of a run, beside the reports of the ranks' paths about them.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tool/run/options.hpp"
#include "tool/run/report.hpp"
#include "tool/run/verdicts.hpp"

namespace hawser::tool {

// How long something took, over the ranks at which it happened.
struct Delays {
  std::uint32_t n = 0;
  std::uint64_t shortest_ns = 0;
  std::uint64_t longest_ns = 0;

  void add(std::uint64_t ns);
};

// One fault of NICs, and its effects at the NICs that it hit: one for each rank that it concerns.
struct FaultRow {
  std::string text;
  double when = 0;            // fraction of the run
  bool to_be_seen = false;    // packets stop passing, so paths should go down
  std::uint32_t hit = 0;      // NICs
  std::uint64_t at_ns = 0;    // when the first of them was hit, since the start of the run
  Delays path_down;           // until the first path of the NIC went down, at any rank
  Delays blamed;              // until the paths of all ranks together blamed the NIC
  Delays blamed_by_own_rank;  // until the paths of its own rank did
};

struct FaultReport {
  std::vector<FaultRow> rows;
  std::vector<VerdictSpan> not_injected;  // verdicts that no fault explains
  std::uint64_t changes_left_out = 0;     // of paths; their effects are missing here
};

[[nodiscard]] FaultReport compare_faults(const RunOptions& options,
                                         const std::vector<RankResult>& results);

// Empty if nothing was injected and nothing was seen.
[[nodiscard]] std::string to_text(const FaultReport& report);
[[nodiscard]] nlohmann::json to_json(const FaultReport& report);

// "NIC 0 of rank 1", "the link between NIC 0 of rank 1 and NIC 2 of rank 3"
[[nodiscard]] std::string describe(const FaultVerdict& verdict);

}  // namespace hawser::tool
