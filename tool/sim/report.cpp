// SPDX-License-Identifier: Apache-2.0
#include "tool/sim/report.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tool/sim/facts.hpp"
#include "tool/sim/html.hpp"
#include "tool/sim/pictures.hpp"
#include "tool/storm/commit.hpp"

namespace hawser::tool {
namespace {

using experiment::Metric;
using experiment::Plan;

constexpr std::size_t kMostPoints = 3;  // points with full details, besides the table
constexpr std::size_t kMostRuns = 300;  // that are listed
constexpr double kUs = 1e-6;

std::string card(const std::string& inside) {
  return "<div class=\"card\">\n" + inside + "</div>\n";
}

// The details above this list belong to the first value of each range.
std::string ranges_html(const Plan& plan) {
  std::string html;
  for (const experiment::Range& range : plan.ranges) {
    html += fmt::format(
        "<p class=\"note\">{} takes these values: {}. The sections above show the first one.</p>\n",
        escaped(range.path), escaped(fmt::format("{}", fmt::join(range.values, ", "))));
  }
  return html;
}

std::string facts_html(const Facts& facts) {
  HtmlTable table{{}, {}, false};
  for (const auto& [name, value] : facts) {
    table.rows.push_back({"<b>" + escaped(name) + "</b>", escaped(value)});
  }
  return card(to_html(table));
}

// ---- tables

std::string figure(const Group& group, Metric metric, int digits) {
  const auto median = group.median(metric);
  if (!median) return "none";
  std::string text = fmt::format("{:.{}f}", *median, digits);
  const auto worst = group.worst(metric);
  if (group.runs.size() > 1 && *worst != *median) {
    text += fmt::format("<small>{:.{}f}</small>", *worst, digits);
  }
  return text;
}

// The median of a number that is no metric; empty if a run lacks it.
template <class Number>
std::string middle(const Group& group, Number number, int digits) {
  std::vector<double> values;
  for (const KeptRun& run : group.runs) {
    const std::optional<double> value = run.failure.empty() ? number(run.numbers) : std::nullopt;
    if (!value) return "none";
    values.push_back(*value);
  }
  if (values.empty()) return "none";
  std::ranges::sort(values);
  return fmt::format("{:.{}f}", values[(values.size() - 1) / 2], digits);
}

std::optional<double> us(const std::optional<std::int64_t>& ps) {
  return ps ? std::optional<double>(static_cast<double>(*ps) * kUs) : std::nullopt;
}

std::vector<std::string> times_row(const Plan& plan, const Group& group) {
  using Numbers = experiment::TrialNumbers;
  return {escaped(plan.senders[group.sender]),
          middle(
              group, [](const Numbers& n) { return us(n.p50_ps); }, 1),
          middle(
              group, [](const Numbers& n) { return us(n.p99_ps); }, 1),
          figure(group, Metric::last_flow_us, 1),
          figure(group, Metric::last_flow_over_ideal, 3),
          middle(
              group, [](const Numbers& n) { return us(n.p50_excess_ps); }, 1),
          figure(group, Metric::p99_flow_excess_us, 1),
          figure(group, Metric::p99_step_excess_us, 1),
          figure(group, Metric::goodput, 1)};
}

std::vector<std::string> packets_row(const Plan& plan, const Group& group) {
  using Numbers = experiment::TrialNumbers;
  const auto packets = [&](std::uint64_t Numbers::*field) {
    return middle(
        group, [&](const Numbers& n) { return std::optional<double>(n.*field); }, 0);
  };
  return {escaped(plan.senders[group.sender]),
          packets(&Numbers::data_packets),
          packets(&Numbers::retransmitted),
          packets(&Numbers::duplicates),
          packets(&Numbers::dropped),
          packets(&Numbers::trimmed),
          packets(&Numbers::marked),
          packets(&Numbers::lost),
          packets(&Numbers::cut),
          fmt::format("{:.1f}", group.cpu_s())};
}

std::string senders_tables(const Findings& findings, std::size_t point) {
  HtmlTable times{{"sender", "p50 flow, us", "p99 flow, us", "last flow, us", "last / ideal",
                   "p50 excess, us", "p99 excess, us", "p99 step excess, us", "goodput, Gb/s"},
                  {}};
  HtmlTable packets{{"sender", "data packets", "resent", "duplicates", "dropped", "trimmed",
                     "marked", "lost by chance", "cut by faults", "CPU-s"},
                    {}};
  const Plan& plan = findings.plans()[point];
  bool has_several = false;
  for (std::size_t i = 0; i < plan.senders.size(); ++i) {
    const Group& group = findings.group(point, i);
    has_several = has_several || group.runs.size() > 1;
    if (group.runs.empty()) continue;
    times.rows.push_back(times_row(plan, group));
    packets.rows.push_back(packets_row(plan, group));
  }
  std::string note =
      "Excess is what flows and steps take beyond their ideal time. Marked, dropped, lost and cut "
      "packets are counted on links, acknowledgements among them.";
  if (has_several) {
    note +=
        " Figures are medians over the seeds. The worst seed's figure stands below, where it "
        "differs. CPU-seconds cover all seeds.";
  }
  return card(to_html(times)) + card(to_html(packets)) + "<p class=\"note\">" + note + "</p>\n";
}

// The effects of faults; empty if there are none.
std::string faults_table(const Findings& findings, std::size_t point) {
  const Plan& plan = findings.plans()[point];
  if (plan.faults.empty()) return {};
  using After = experiment::AftermathNumbers;
  HtmlTable table{{"sender", "capacity back, us", "left capacity used", "blamed after, us",
                   "paths blamed rightly", "wrongly", "dead NICs not blamed"},
                  {}};
  for (std::size_t i = 0; i < plan.senders.size(); ++i) {
    const Group& group = findings.group(point, i);
    if (group.runs.empty()) continue;
    const auto count = [&](std::optional<std::uint64_t> After::*field) {
      return middle(
          group,
          [&](const experiment::TrialNumbers& n) {
            const auto& value = n.aftermath.*field;
            return value ? std::optional<double>(*value) : std::nullopt;
          },
          0);
    };
    table.rows.push_back(
        {escaped(plan.senders[i]), figure(group, Metric::capacity_back_us, 1),
         figure(group, Metric::left_used, 3),
         middle(
             group, [](const experiment::TrialNumbers& n) { return us(n.aftermath.blamed_ps); }, 1),
         count(&After::blamed_rightly), figure(group, Metric::blamed_wrongly, 0),
         count(&After::unblamed)});
  }
  return "<h3>Faults</h3>\n" + card(to_html(table)) +
         "<p class=\"note\">Times count from the first fault. A sender blames a path when it "
         "considers the path dead. It is right if a NIC of the path had died by then. Blamed "
         "after: until each dead NIC that was ever blamed had been blamed once.</p>\n";
}

std::string runs_table(const Findings& findings) {
  HtmlTable table{{"run", "sender", "seed", "first flow, us", "last flow, us", "p99 excess, us",
                   "resent", "dropped", "lost or cut", "capacity back, us", "digest"},
                  {}};
  for (const Group& group : findings.groups()) {
    const Plan& plan = findings.plans()[group.point];
    std::string name;
    for (const std::string& value : plan.values) name += escaped(value) + " ";
    for (const KeptRun& run : group.runs) {
      if (table.rows.size() == kMostRuns) continue;
      const auto& n = run.numbers;
      const auto in_us = [](const std::optional<std::int64_t>& ps) {
        return ps ? fmt::format("{:.1f}", static_cast<double>(*ps) * kUs) : std::string("none");
      };
      table.rows.push_back(
          {fmt::format("{}", table.rows.size() + 1), name + escaped(plan.senders[group.sender]),
           fmt::format("{}", run.seed), in_us(n.first_ps), in_us(n.last_ps), in_us(n.p99_excess_ps),
           fmt::format("{}", n.retransmitted), fmt::format("{}", n.dropped),
           fmt::format("{}", n.lost + n.cut), in_us(n.aftermath.capacity_back_ps),
           run.failure.empty() ? fmt::format("{:016x}", n.digest) : escaped(run.failure)});
    }
  }
  return "<details class=\"card\"><summary>The runs</summary>\n" + to_html(table) + "</details>\n";
}

// ---- the parts

std::string head_html(const Findings& findings, const ReportHead& head) {
  const Plan& plan = findings.plans().front();
  std::string html = "<h1>" + escaped(plan.question) + "</h1>\n";
  std::string verdict = findings.verdict();
  verdict.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(verdict.front())));
  html += fmt::format("<div class=\"verdict {}\">{}.</div>\n", findings.holds() ? "holds" : "fails",
                      escaped(verdict));
  std::string note = fmt::format(
      "{} of {}, seeds {} to {}; {:.1f} CPU-seconds, {:.0f} MB in the "
      "largest process; commit {}; plan {}.",
      findings.runs(), count_of(head.runs, "run"), head.seeds.first, head.seeds.last,
      findings.cpu_s(), static_cast<double>(findings.memory_bytes()) / 1e6, commit(),
      head.plan_file);
  if (findings.runs() < head.runs) note += " It was interrupted.";
  const std::string cost = findings.excess_of_cost(head.share);
  if (!cost.empty()) note += fmt::format(" More than planned: {}.", cost);
  return html + "<p class=\"note\">" + escaped(note) + "</p>\n";
}

std::string point_html(const Findings& findings, std::size_t point, std::uint64_t seed) {
  const Plan& plan = findings.plans()[point];
  std::string html;
  if (!plan.ranges.empty()) {
    std::string name;
    for (std::size_t i = 0; i < plan.ranges.size(); ++i) {
      name += fmt::format("{}{} {}", name.empty() ? "" : ", ", plan.ranges[i].path, plan.values[i]);
    }
    html += "<h2>At " + escaped(name) + "</h2>\n";
  }
  html += "<h2>Senders</h2>\n" + senders_tables(findings, point) + faults_table(findings, point);
  html += "<h2>Flows and throughput</h2>\n";
  html += card(flow_times_picture(findings, point));
  html += card(throughput_picture(findings, point));
  html += fmt::format(
      "<p class=\"note\">Throughput is that of seed {}: whole packets, with headers "
      "and acknowledgements.</p>\n",
      seed);
  html += "<h2>Links</h2>\n";
  html +=
      "<p class=\"note\">The bytes that each link carried from the start of the traffic to its "
      "end, as a share of its capacity; the same seed.</p>\n";
  for (std::size_t i = 0; i < plan.senders.size(); ++i) {
    const std::string pictures = link_pictures(findings, findings.group(point, i));
    if (pictures.empty()) continue;
    html += "<h3>" + escaped(plan.senders[i]) + "</h3>\n" + card(pictures);
  }
  return html;
}

}  // namespace

std::string report_html(const Findings& findings, const ReportHead& head) {
  const std::vector<Plan>& plans = findings.plans();
  std::string body = head_html(findings, head);
  body += "<h2>What was run</h2>\n" + facts_html(fabric_facts(plans.front()));
  body += facts_html(traffic_facts(findings, 0, head.seeds.first));
  body += ranges_html(plans.front());
  const std::string ranges = range_picture(findings);
  if (!ranges.empty()) body += "<h2>Over the ranges</h2>\n" + card(ranges);
  std::size_t told = 0;
  for (std::size_t point = 0; point < plans.size() && told < kMostPoints; ++point) {
    if (findings.group(point, 0).runs.empty()) continue;
    body += point_html(findings, point, head.seeds.first);
    ++told;
  }
  if (told < plans.size()) {
    body += fmt::format(
        "<p class=\"note\">{} of {} points are shown in full; all are in runs.csv.</p>\n", told,
        plans.size());
  }
  return html_page(plans.front().question, body + "<h2>Runs</h2>\n" + runs_table(findings));
}

}  // namespace hawser::tool
