// SPDX-License-Identifier: Apache-2.0
// A storm that is recorded while it runs, and its output for people: a timeline in words, and a
// trace for Perfetto.
#pragma once

#include <functional>

#include "tool/storm/apart.hpp"
#include "tool/storm/options.hpp"

namespace hawser::tool {

// Writes PREFIX.txt and PREFIX.json, even if the storm crashes: its process records into memory
// that this one shares. `ended` gets the outcome before anything is written. Throws InputError if
// the files can't be written, without running the storm if that is known before.
void trace_storm(const sim::Plan& plan, const Storm& storm, double limit_s,
                 const std::function<bool()>& interrupted, const TraceOptions& options,
                 const std::function<void(const ApartOutcome&)>& ended);

}  // namespace hawser::tool
