#include "tool/sim/report.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "sim/experiment/ideal.hpp"
#include "sim/experiment/traffic.hpp"
#include "tool/sim/html.hpp"
#include "tool/sim/pictures.hpp"
#include "tool/storm/commit.hpp"

namespace hawser::tool {
namespace {

using experiment::Metric;
using experiment::Plan;
using fabric::Shape;

constexpr std::size_t kMostPoints = 3;  // that are told in full, besides the table
constexpr std::size_t kMostRuns = 300;  // that are listed
constexpr double kUs = 1e-6;

using Facts = std::vector<std::pair<std::string, std::string>>;

std::string bytes_text(std::uint64_t bytes) {
  if (bytes == fabric::kUnlimited) return "unlimited";
  if (bytes >= 1'000'000) return fmt::format("{:.4g} MB", static_cast<double>(bytes) / 1e6);
  if (bytes >= 10'000) return fmt::format("{:.4g} kB", static_cast<double>(bytes) / 1e3);
  return fmt::format("{} B", bytes);
}

std::string ns_text(fabric::Span span) {
  const auto ns = static_cast<double>(span.ps) / 1e3;
  return ns >= 1000 ? fmt::format("{:g} us", ns / 1e3) : fmt::format("{:g} ns", ns);
}

std::string count_of(std::uint64_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

// ---- the fabric's and the traffic's numbers

// Of an empty packet between the two hosts that are furthest apart, and back.
fabric::Span round_trip(const Plan& plan) {
  fabric::ConnectionMatrix matrix;
  matrix.nodes = plan.fabric.shape.hosts;
  matrix.connections.push_back({.from = 0, .to = matrix.nodes - 1, .bytes = 0});
  const auto ideal = experiment::ideal_completion(
      matrix, plan.fabric.shape, {.overhead_bytes = plan.fabric.nic.overhead_bytes});
  return ideal.last - fabric::Instant{};
}

std::string marks_text(const fabric::QueueSettings& queue) {
  if (queue.mark_min == fabric::kUnlimited) return "none";
  return fmt::format("of packets that leave {} to {} waiting behind them",
                     bytes_text(queue.mark_min), bytes_text(queue.mark_max));
}

std::string placement_text(const Shape& shape) {
  if (shape.nics == 1) return "one NIC a host";
  switch (shape.placement) {
    case fabric::Placement::together: return fmt::format("{} NICs a host, at one leaf", shape.nics);
    case fabric::Placement::rails: return fmt::format("{} NICs a host, on rails", shape.nics);
    case fabric::Placement::planes: return fmt::format("{} NICs a host, in planes", shape.nics);
  }
  return {};
}

Facts fabric_facts(const Plan& plan) {
  const Shape& shape = plan.fabric.shape;
  Facts facts{{"Fabric", plan.fabric.said},
              {"Hosts", fmt::format("{}, {}", shape.hosts, placement_text(shape))}};
  const char* const names[] = {"Leaves", shape.tiers.size() == 2 ? "Spines" : "Upper switches",
                               "Cores"};
  for (std::size_t i = 0; i < shape.tiers.size(); ++i) {
    const fabric::Tier& tier = shape.tiers[i];
    facts.emplace_back(names[i],
                       fmt::format("{} down{}; cables below them {:g} Gb/s, {}; switch latency {}",
                                   count_of(tier.down, "cable"),
                                   tier.up > 0 ? fmt::format(" and {} up", tier.up) : std::string(),
                                   static_cast<double>(tier.bits_per_s) / 1e9,
                                   ns_text(tier.cable_latency), ns_text(tier.switch_latency)));
  }
  const fabric::Span trip = round_trip(plan);
  const std::uint64_t in_trip = static_cast<std::uint64_t>(
      static_cast<double>(trip.ps) * static_cast<double>(shape.tiers[0].bits_per_s) / 8e12);
  facts.emplace_back("Round trip",
                     fmt::format("{:.2f} us at its longest, of nothing but headers; "
                                 "{} of a NIC's rate",
                                 static_cast<double>(trip.ps) * kUs, bytes_text(in_trip)));
  facts.emplace_back(
      "Packets", fmt::format("{} B of payload at most (MTU: datagrams of {} B), {} B of headers "
                             "besides the protocol's own",
                             Tunables{}.fragment_bytes, plan.fabric.nic.max_datagram_bytes,
                             plan.fabric.nic.overhead_bytes));
  facts.emplace_back("Switch queues", bytes_text(shape.queue.capacity) + " each");
  facts.emplace_back("Marks", marks_text(shape.queue));
  facts.emplace_back("What doesn't fit", shape.queue.trim_to > 0 ? fmt::format("is trimmed to {} B",
                                                                               shape.queue.trim_to)
                                                                 : std::string("is dropped"));
  facts.emplace_back("Routing", shape.adaptive ? "adaptive: the shortest queue of a switch"
                                               : fmt::format("by hash; {} entropies a NIC",
                                                             plan.fabric.nic.entropies));
  return facts;
}

std::string fault_text(const experiment::FaultPlan& fault) {
  std::string text = fmt::format("{} at {:g} us: {}",
                                 experiment::kFaultKindNames[static_cast<std::size_t>(fault.kind)],
                                 static_cast<double>(fault.at.ps) * kUs,
                                 !fault.link.empty()        ? fault.link
                                 : !fault.at_switch.empty() ? fault.at_switch
                                                            : count_of(fault.drawn, "drawn cable"));
  if (fault.bits_per_s > 0) {
    text += fmt::format(", {:g} Gb/s", static_cast<double>(fault.bits_per_s) / 1e9);
  }
  if (fault.probability > 0) text += fmt::format(", {:g} of all packets", fault.probability);
  if (!fault.both_ways) text += ", one way";
  return text + (fault.lasts.ps > 0
                     ? fmt::format(", for {:g} us", static_cast<double>(fault.lasts.ps) * kUs)
                     : std::string(", to the end"));
}

Facts traffic_facts(const Findings& findings, std::size_t point, std::uint64_t seed) {
  const Plan& plan = findings.plans()[point];
  const auto matrix = experiment::make_matrix(plan.traffic, plan.fabric.shape.hosts, seed);
  std::uint64_t all = 0;
  std::uint64_t least = ~std::uint64_t{0};
  std::uint64_t most = 0;
  for (const fabric::Connection& one : matrix.connections) {
    all += one.bytes;
    least = std::min(least, one.bytes);
    most = std::max(most, one.bytes);
  }
  const std::string sizes = least == most
                                ? bytes_text(least) + " each"
                                : fmt::format("{} to {} each", bytes_text(least), bytes_text(most));
  Facts facts{{"Traffic", plan.traffic.said},
              {"Flows", fmt::format("{}, {}, {} in all", matrix.connections.size(), sizes,
                                    bytes_text(all))}};
  if (!matrix.triggers.empty()) {
    facts.emplace_back("Triggers", fmt::format("{}", matrix.triggers.size()));
  }
  const char* const hints[] = {"none", "with receives", "with sends and receives"};
  facts.emplace_back("Hints", hints[static_cast<std::size_t>(plan.hints)]);
  const auto& runs = findings.group(point, 0).runs;
  if (!runs.empty() && runs.front().failure.empty()) {
    facts.emplace_back("Ideal completion",
                       fmt::format("{:.2f} us: the busiest cables' bytes, and the way's latency",
                                   static_cast<double>(runs.front().numbers.ideal_ps) * kUs));
  }
  std::string faults;
  for (const experiment::FaultPlan& fault : plan.faults) {
    faults += (faults.empty() ? "" : "; ") + fault_text(fault);
  }
  facts.emplace_back("Faults", faults.empty() ? "none" : faults);
  return facts;
}

std::string card(const std::string& inside) {
  return "<div class=\"card\">\n" + inside + "</div>\n";
}

// Of what was told above, the first value counts there.
std::string ranges_html(const Plan& plan) {
  std::string html;
  for (const experiment::Range& range : plan.ranges) {
    html += fmt::format(
        "<p class=\"note\">{} takes these values, of which the first is told above: "
        "{}.</p>\n",
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

// The median of what is no metric; empty if a run lacks it.
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
        " Figures are medians over the seeds; below them is the worst seed's, where it differs. "
        "CPU-seconds are of all seeds.";
  }
  return card(to_html(times)) + card(to_html(packets)) + "<p class=\"note\">" + note + "</p>\n";
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
           fmt::format("{}", n.lost + n.cut), in_us(n.capacity_back_ps),
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
  html += "<h2>Senders</h2>\n" + senders_tables(findings, point);
  html += "<h2>Flows and throughput</h2>\n";
  html += card(flow_times_picture(findings, point));
  html += card(throughput_picture(findings, point));
  html += fmt::format(
      "<p class=\"note\">Throughput is that of seed {}: whole packets, with headers "
      "and acknowledgements.</p>\n",
      seed);
  html += "<h2>Links</h2>\n";
  html +=
      "<p class=\"note\">What each link carried from the traffic's begin to its end, as a share "
      "of what it could have; the same seed.</p>\n";
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
        "<p class=\"note\">{} of {} points are told in full; all are in "
        "runs.csv.</p>\n",
        told, plans.size());
  }
  return html_page(plans.front().question, body + "<h2>Runs</h2>\n" + runs_table(findings));
}

}  // namespace hawser::tool
