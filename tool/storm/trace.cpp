// SPDX-License-Identifier: Apache-2.0
#include "tool/storm/trace.hpp"

#include <fstream>

#include <fmt/format.h>

#include "tool/error.hpp"
#include "tool/storm/chrome_trace.hpp"
#include "tool/storm/forked.hpp"
#include "tool/storm/timeline.hpp"

namespace hawser::tool {
namespace {

// The last ones are kept, if there are more. Memory is taken only for those that come.
constexpr std::size_t kMostHappenings = std::size_t{1} << 22;

std::ofstream open(const std::string& name) {
  std::ofstream out(name);
  if (!out) throw InputError(fmt::format("cannot write the trace to '{}'", name));
  return out;
}

void close(std::ofstream& out, const std::string& name) {
  out.flush();
  if (!out) throw InputError(fmt::format("'{}' is not complete: the disk is full?", name));
}

}  // namespace

ApartOutcome trace_storm(const sim::Plan& plan, const Storm& storm, double limit_s,
                         const std::function<bool()>& interrupted, const TraceOptions& options) {
  const Shared<std::uint64_t> count(kMostHappenings * sizeof(sim::Happening));
  auto* const room = static_cast<sim::Happening*>(count.extra());
  sim::Recording recording({room, kMostHappenings}, *count);
  const ApartOutcome outcome = run_apart(plan, storm, limit_s, interrupted, &recording);
  const Subjects subjects(recording);
  std::ofstream text = open(options.prefix + ".txt");
  write_timeline(text, plan, recording, subjects, outcome, options);
  close(text, options.prefix + ".txt");
  std::ofstream json = open(options.prefix + ".json");
  write_chrome_trace(json, plan, recording, subjects, options);
  close(json, options.prefix + ".json");
  return outcome;
}

}  // namespace hawser::tool
