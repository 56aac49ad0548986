// SPDX-License-Identifier: Apache-2.0
#include "tool/sim/tables.hpp"

#include <fmt/format.h>

namespace hawser::tool {
namespace {

using experiment::FlowResult;
using experiment::Metric;
using experiment::Plan;
using experiment::Trial;
using experiment::TrialNumbers;

// A cell of csv: in quotes if it needs them.
std::string cell(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char letter : text) {
    if (letter == '"') quoted += '"';
    quoted += letter;
  }
  return quoted + "\"";
}

// Differences can be negative.
std::string signed_us(std::int64_t ps) {
  return ps < 0 ? fmt::format("-{}", exact_us(-ps)) : exact_us(ps);
}

std::string optional_us(const std::optional<std::int64_t>& ps) {
  return ps ? signed_us(*ps) : std::string();
}

std::string optional_number(const std::optional<double>& value) {
  return value ? fmt::format("{:.6f}", *value) : std::string();
}

std::string optional_count(const std::optional<std::uint64_t>& count) {
  return count ? fmt::format("{}", *count) : std::string();
}

}  // namespace

std::string exact_us(std::int64_t ps) {
  constexpr std::int64_t kPs = 1'000'000;
  return ps < 0 ? std::string() : fmt::format("{}.{:06}", ps / kPs, ps % kPs);
}

std::string runs_head(const std::vector<Plan>& plans) {
  std::string head = "run";
  for (const experiment::Range& range : plans.front().ranges)
    head += fmt::format(",{}", cell(range.path));
  return head +
         ",sender,seed,outcome,flows,ended,first_flow_us,p50_flow_us,p99_flow_us,last_flow_us,"
         "ideal_us,last_flow_over_ideal,p50_flow_excess_us,p99_flow_excess_us,p99_step_excess_us,"
         "goodput_gbps,data_packets,retransmitted,duplicates,dropped,trimmed,marked,lost,cut,"
         "capacity_back_us,left_used,blamed_rightly,blamed_wrongly,"
         "unblamed,blamed_us,digest\n";
}

std::string runs_line(std::size_t run, const std::vector<Plan>& plans, const RunResult& result) {
  const Plan& plan = plans[result.name.point];
  std::string line = fmt::format("{}", run);
  for (const std::string& value : plan.values) line += fmt::format(",{}", cell(value));
  const TrialNumbers& n = result.trial.numbers;
  const std::string outcome = !result.failure.empty()     ? cell("died: " + result.failure)
                              : !result.trial.sessions_up ? "no sessions"
                              : n.ended < n.flows         ? "not all ended"
                                                          : "ended";
  line +=
      fmt::format(",{},{},{}", cell(plan.senders[result.name.sender]), result.name.seed, outcome);
  if (!result.failure.empty()) return line + std::string(27, ',') + "\n";
  line += fmt::format(",{},{},{},{},{},{}", n.flows, n.ended, optional_us(n.first_ps),
                      optional_us(n.p50_ps), optional_us(n.p99_ps), optional_us(n.last_ps));
  line += fmt::format(",{},{},{},{},{},{}", exact_us(n.ideal_ps),
                      optional_number(n.value(Metric::last_flow_over_ideal)),
                      optional_us(n.p50_excess_ps), optional_us(n.p99_excess_ps),
                      optional_us(n.p99_step_excess_ps), optional_number(n.value(Metric::goodput)));
  line += fmt::format(",{},{},{},{},{},{},{},{}", n.data_packets, n.retransmitted, n.duplicates,
                      n.dropped, n.trimmed, n.marked, n.lost, n.cut);
  const experiment::AftermathNumbers& after = n.aftermath;
  line += fmt::format(",{},{},{},{},{},{}", optional_us(after.capacity_back_ps),
                      optional_number(after.left_used), optional_count(after.blamed_rightly),
                      optional_count(after.blamed_wrongly), optional_count(after.unblamed),
                      optional_us(after.blamed_ps));
  return line + fmt::format(",{:016x}\n", n.digest);
}

std::string flows_head() {
  return "run,flow,from,to,bytes,step,started_us,received_us,ended_us,ideal_us,excess_us\n";
}

std::string flows_lines(std::size_t run, const RunResult& result) {
  std::string lines;
  for (std::size_t i = 0; i < result.trial.flows.size(); ++i) {
    const FlowResult& flow = result.trial.flows[i];
    lines += fmt::format(
        "{},{},{},{},{},{},{},{},{},{},{}\n", run, i, flow.from, flow.to, flow.bytes, flow.step,
        exact_us(flow.started_ps), exact_us(flow.received_ps), exact_us(flow.ended_ps),
        exact_us(flow.ideal_ps), flow.has_ended() ? signed_us(flow.excess_ps()) : std::string());
  }
  return lines;
}

std::string series_head() { return "run,begin_us,bytes,fault\n"; }

std::string series_lines(std::size_t run, const RunResult& result) {
  std::string lines;
  const Trial& trial = result.trial;
  const auto count = static_cast<std::int64_t>(trial.slices.size());
  std::size_t mark = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t begin = trial.lasted_ps / count * i + trial.lasted_ps % count * i / count;
    const std::int64_t next =
        trial.lasted_ps / count * (i + 1) + trial.lasted_ps % count * (i + 1) / count;
    std::size_t faults = 0;  // that begin or end in this slice
    for (; mark < trial.faults.size() && trial.faults[mark].at_ps < next; ++mark) ++faults;
    lines += fmt::format("{},{},{},{}\n", run, exact_us(begin),
                         trial.slices[static_cast<std::size_t>(i)], faults);
  }
  return lines;
}

}  // namespace hawser::tool
