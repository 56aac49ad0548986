// SPDX-License-Identifier: Apache-2.0
// An experiment's report: one HTML file with pictures inside, and without references to others.
#pragma once

#include <string>

#include "tool/sim/findings.hpp"

namespace hawser::tool {

struct ReportHead {
  std::string plan_file;
  experiment::SeedRange seeds;
  std::size_t runs = 0;  // for all seeds
  double share = 1;      // of the plan's own runs
};

[[nodiscard]] std::string report_html(const Findings& findings, const ReportHead& head);

}  // namespace hawser::tool
