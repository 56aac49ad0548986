// SPDX-License-Identifier: Apache-2.0
// Pictures of an experiment's findings: distributions, throughput over time, maps of links.
#pragma once

#include <string>

#include "tool/sim/findings.hpp"

namespace hawser::tool {

// Each is SVG with its own title; empty if there is nothing to show.
[[nodiscard]] std::string flow_times_picture(const Findings& findings, std::size_t point);
[[nodiscard]] std::string throughput_picture(const Findings& findings, std::size_t point);
// Several pictures of the first seed's run.
[[nodiscard]] std::string link_pictures(const Findings& findings, const Group& group);
// The metric at all points.
[[nodiscard]] std::string range_picture(const Findings& findings);

}  // namespace hawser::tool
