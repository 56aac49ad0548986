// SPDX-License-Identifier: Apache-2.0
#include "tool/storm/trace.hpp"

#include "tool/output_file.hpp"
#include "tool/storm/chrome_trace.hpp"
#include "tool/storm/forked.hpp"
#include "tool/storm/timeline.hpp"

namespace hawser::tool {
namespace {

// The last ones are kept, if there are more. Memory is taken only for those that come.
constexpr std::size_t kMostHappenings = std::size_t{1} << 22;

}  // namespace

void trace_storm(const sim::Plan& plan, const Storm& storm, double limit_s,
                 const std::function<bool()>& interrupted, const TraceOptions& options,
                 const std::function<void(const ApartOutcome&)>& ended) {
  const OutputFile timeline(options.prefix + ".txt", "the timeline");
  const OutputFile trace(options.prefix + ".json", "the trace");
  const Shared<std::uint64_t> count(kMostHappenings * sizeof(sim::Happening));
  auto* const room = static_cast<sim::Happening*>(count.extra());
  sim::Recording recording({room, kMostHappenings}, *count);
  const ApartOutcome outcome = run_apart(plan, storm, limit_s, interrupted, &recording);
  ended(outcome);
  const Subjects subjects(recording);
  timeline.write(
      [&](std::ostream& out) { write_timeline(out, plan, recording, subjects, outcome, options); });
  trace.write(
      [&](std::ostream& out) { write_chrome_trace(out, plan, recording, subjects, options); });
}

}  // namespace hawser::tool
