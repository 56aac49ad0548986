// SPDX-License-Identifier: Apache-2.0
#include "tool/storm/report.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tool/storm/commit.hpp"

namespace hawser::tool {
namespace {

using sim::CensusGroup;
using Out = std::back_insert_iterator<std::string>;

constexpr std::array kQuantiles{0.1, 0.5, 0.9, 0.99};
constexpr std::size_t kLineBytes = 100;

double share(std::uint64_t part, std::uint64_t of) {
  return of == 0 ? 0 : static_cast<double>(part) / static_cast<double>(of);
}
double rate(std::uint64_t n, double seconds) {
  return seconds > 0 ? static_cast<double>(n) / seconds : 0;
}
// "12%", and "<1%" for rare events.
std::string percent(std::uint64_t part, std::uint64_t of) {
  const double value = 100 * share(part, of);
  if (part > 0 && value < 1) return "<1%";
  return fmt::format("{:.0f}%", value);
}

void add_failures(Out out, const SwarmResult& result, const Wording& wording) {
  if (result.failures == 0) {
    fmt::format_to(out, "no failure\n");
    return;
  }
  fmt::format_to(out, "{} of {} seeds FAILED\n", result.failures, result.done);
  for (const FailureKind& kind : result.kinds) {
    fmt::format_to(out, "\n  {} x {}\n    {}{}\n", kind.count, kind.first.verdict,
                   kind.seeds.size() == 1 ? "seed " : "seeds ", fmt::join(kind.seeds, ", "));
    if (kind.count > kind.seeds.size()) {
      fmt::format_to(out, "    and {} more\n", kind.count - kind.seeds.size());
    }
    if (!kind.first.last_words.empty()) {
      fmt::format_to(out, "    the worker's last output:\n");
      std::string_view words = kind.first.last_words;
      while (!words.empty()) {
        const std::size_t end = std::min(words.find('\n'), words.size());
        fmt::format_to(out, "      {}\n", words.substr(0, end));
        words.remove_prefix(std::min(end + 1, words.size()));
      }
    }
    fmt::format_to(out, "{}", advice(kind.first.seed, wording));
  }
  if (result.unnamed > 0) fmt::format_to(out, "  and {} of other kinds\n", result.unnamed);
}

void add_quantities(Out out, const Totals& totals) {
  fmt::format_to(out, "\n{:<18}{:>10}{:>10}{:>10}{:>10}{:>10}{:>12}{:>10}\n", "a seed's", "least",
                 "p10", "p50", "p90", "p99", "most", "mean");
  for (std::size_t i = 0; i < kQuantities; ++i) {
    const Histogram& histogram = totals.quantities[i];
    fmt::format_to(out, "{:<18}{:>10}", kQuantityTexts[i].name, histogram.least());
    for (const double q : kQuantiles) fmt::format_to(out, "{:>10}", histogram.quantile(q));
    fmt::format_to(out, "{:>12}{:>10.0f}\n", histogram.most(),
                   histogram.count() == 0 ? 0 : share(histogram.sum(), histogram.count()));
  }
}

void add_faults(Out out, const Totals& totals) {
  fmt::format_to(out, "\n{:<18}{:>10}{:>10}\n", "faults", "seeds", "times");
  for (std::size_t i = 0; i < sim::kFaultKinds; ++i) {
    fmt::format_to(out, "{:<18}{:>9.1f}%{:>10}\n", sim::kFaultNames[i],
                   100 * share(totals.faults[i].seeds, totals.runs), totals.faults[i].times);
  }
}

// A trait of a run, derived from what it visited.
struct Feature {
  std::string_view text;
  std::string_view cell;
};
constexpr std::array kFeatures{
    Feature{"lost packets", "trace_kind:packet_lost"},
    Feature{"late packets, wrongly declared lost", "trace_kind:packet_late"},
    Feature{"retransmissions", "trace_kind:packet_retransmitted"},
    Feature{"requests for fragments", "trace_kind:request_sent"},
    Feature{"grants", "trace_kind:grant_given"},
    Feature{"probe timeouts", "trace_kind:pto"},
    Feature{"paths that went DOWN", "path_state:DOWN"},
    Feature{"NICs that moved", "event:nic_moved"},
    Feature{"damaged packets", "drop:bad_checksum"},
    Feature{"cancelled sends", "send_completion:cancelled"},
    Feature{"cancelled receives", "receive_completion:cancelled"},
    Feature{"truncated receives", "receive_completion:truncated"},
    Feature{"no room for a message", "message_status:no_room"},
    Feature{"a full store", "receive_completion:store_full"},
};

void add_features(Out out, const Totals& totals) {
  fmt::format_to(out, "\nruns with\n");
  const auto line = [&](std::string_view text, const Visits& visits) {
    fmt::format_to(out, "  {:<38}{:>6.1f}%{:>14} times\n", text,
                   100 * share(visits.seeds, totals.runs), visits.times);
  };
  line("failed sessions", totals.failed_sessions);
  line("processes that died", totals.dead_processes);
  for (const Feature& feature : kFeatures) {
    line(feature.text, totals.census[sim::find_census_cell(feature.cell)]);
  }
}

// Words in lines of bounded length, indented.
void add_words(Out out, const std::vector<std::string>& words) {
  std::size_t used = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i] + (i + 1 < words.size() ? ", " : "\n");
    if (used == 0 || used + word.size() > kLineBytes) {
      fmt::format_to(out, "{}    ", used == 0 ? "" : "\n");
      used = 4;
    }
    fmt::format_to(out, "{}", word);
    used += word.size();
  }
}

void add_visits(Out out, const Totals& totals) {
  fmt::format_to(out, "\nvisited: how often, in how many of the seeds\n");
  std::size_t cell = 0;
  for (std::size_t group = 0; group < sim::kCensusGroups; ++group) {
    fmt::format_to(out, "  {}: {}\n", sim::kCensusGroupTexts[group].name,
                   sim::kCensusGroupTexts[group].text);
    std::vector<std::string> words;
    for (std::size_t i = 0; i < sim::kCensusGroupTexts[group].cells; ++i, ++cell) {
      const Visits& visits = totals.census[cell];
      if (visits.times == 0) continue;
      words.push_back(fmt::format("{} {} ({})", sim::census_rows()[cell].name, visits.times,
                                  percent(visits.seeds, totals.runs)));
    }
    if (words.empty()) words.emplace_back("nothing");
    add_words(out, words);
  }
  const std::vector<std::string> missed = unvisited(totals);
  fmt::format_to(out, "never visited: {} that exist\n", missed.size());
  add_words(out, missed);
}

nlohmann::json json_of(const Histogram& histogram) {
  nlohmann::json json{{"least", histogram.least()},
                      {"most", histogram.most()},
                      {"sum", histogram.sum()},
                      {"count", histogram.count()}};
  for (const double q : kQuantiles) {
    json[fmt::format("p{:.0f}", 100 * q)] = histogram.quantile(q);
  }
  return json;
}

nlohmann::json json_of(const Visits& visits) {
  return {{"times", visits.times}, {"seeds", visits.seeds}};
}

}  // namespace

std::string advice(std::uint64_t seed, const Wording& wording) {
  const std::string command = fmt::format("{} --seed {}{}", wording.command, seed, wording.of_one);
  return fmt::format("    look at it:  {0} --trace\n    cut it down: {0} --shrink\n", command);
}

std::string to_text(const SwarmOptions& options, const SwarmResult& result,
                    const Wording& wording) {
  std::string text;
  const auto out = std::back_inserter(text);
  const Totals& totals = result.totals;
  const std::uint64_t packets = totals.of(Quantity::packets).sum();
  fmt::format_to(out, "storms {}..{}, commit {}\n", options.first, options.last, commit());
  fmt::format_to(out,
                 "{} seeds in {:.1f} s, {} at a time: {:.1f} runs/s, {:.0f} k packets/s, {:.0f} k "
                 "events/s\n",
                 result.done, result.wall_s, options.jobs, rate(result.done, result.wall_s),
                 1e-3 * rate(packets, result.wall_s), 1e-3 * rate(totals.events, result.wall_s));
  fmt::format_to(out,
                 "digest {:016x}: equal for the same seeds as long as every run behaves the same\n",
                 totals.digest);
  if (result.interrupted) fmt::format_to(out, "interrupted\n");
  if (result.goes_on_at) {
    fmt::format_to(out, "to go on: {} --seeds {}..{}{}\n", wording.command, *result.goes_on_at,
                   options.last, wording.of_swarm);
  }
  add_failures(out, result, wording);
  if (totals.runs == 0) return text;
  add_quantities(out, totals);
  add_faults(out, totals);
  add_features(out, totals);
  add_visits(out, totals);
  fmt::format_to(out, "\nmarks\n");
  for (const Mark& mark : marks(totals)) {
    fmt::format_to(out, "  {}  {}\n", mark.holds ? "holds " : "MISSED", mark.text);
  }
  return text;
}

nlohmann::json to_json(const SwarmOptions& options, const SwarmResult& result) {
  const Totals& totals = result.totals;
  const std::uint64_t packets = totals.of(Quantity::packets).sum();
  nlohmann::json json{{"commit", commit()},
                      {"first_seed", options.first},
                      {"last_seed", options.last},
                      {"jobs", options.jobs},
                      {"seeds_done", result.done},
                      {"failures", result.failures},
                      {"interrupted", result.interrupted},
                      {"seconds", result.wall_s},
                      {"runs_per_s", rate(result.done, result.wall_s)},
                      {"packets_per_s", rate(packets, result.wall_s)},
                      {"digest", fmt::format("{:016x}", totals.digest)},
                      {"events", totals.events},
                      {"turns", totals.turns},
                      {"failed_sessions", json_of(totals.failed_sessions)},
                      {"dead_processes", json_of(totals.dead_processes)}};
  if (result.goes_on_at) json["goes_on_at"] = *result.goes_on_at;
  json["failure_kinds"] = nlohmann::json::array();
  for (const FailureKind& kind : result.kinds) {
    json["failure_kinds"].push_back({{"kind", kind.kind},
                                     {"count", kind.count},
                                     {"seeds", kind.seeds},
                                     {"verdict", kind.first.verdict},
                                     {"last_words", kind.first.last_words}});
  }
  for (std::size_t i = 0; i < kQuantities; ++i) {
    json["quantities"][std::string(kQuantityTexts[i].name)] = json_of(totals.quantities[i]);
  }
  for (std::size_t i = 0; i < sim::kFaultKinds; ++i) {
    json["faults"][std::string(sim::kFaultNames[i])] = json_of(totals.faults[i]);
  }
  for (std::size_t cell = 0; cell < sim::kCensusCells; ++cell) {
    if (totals.census[cell].times == 0) continue;
    const sim::CensusRow& row = sim::census_rows()[cell];
    const auto group = static_cast<std::size_t>(row.group);
    json["visited"][std::string(sim::kCensusGroupTexts[group].name)][row.name] =
        json_of(totals.census[cell]);
  }
  json["never_visited"] = unvisited(totals);
  json["marks"] = nlohmann::json::array();
  for (const Mark& mark : marks(totals)) {
    json["marks"].push_back({{"text", mark.text}, {"holds", mark.holds}});
  }
  return json;
}

}  // namespace hawser::tool
