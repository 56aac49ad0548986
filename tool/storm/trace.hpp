// SPDX-License-Identifier: Apache-2.0
// A storm that is recorded while it runs, and its output for people: a timeline in words, and a
// trace for Perfetto.
#pragma once

#include "tool/storm/apart.hpp"
#include "tool/storm/options.hpp"

namespace hawser::tool {

// Writes PREFIX.txt and PREFIX.json, even if the storm crashes: its process records into memory
// that this one shares. Throws InputError if they can't be written.
[[nodiscard]] ApartOutcome trace_storm(const sim::Plan& plan, const Storm& storm, double limit_s,
                                       const std::function<bool()>& interrupted,
                                       const TraceOptions& options);

}  // namespace hawser::tool
