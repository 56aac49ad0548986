// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "tool/run/summary.hpp"

namespace hawser::tool {
namespace {

std::uint64_t counter(const Summary& summary, const char* name) {
  const auto found = summary.counters.find(name);
  return found == summary.counters.end() ? 0 : found->second;
}

double percent_of(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
}

std::string times_text(const Summary& summary, bool windows) {
  std::string text =
      fmt::format("{:<15}{:<8}{:>6}{:>11}{:>11}{:>11}{:>12}{:>12}\n", "collective",
                  windows ? "faults" : "", "n", "p50", "p99", "longest", "algorithm", "bus");
  for (const TimeRow& row : summary.times) {
    text += fmt::format("{:<15}{:<8}{:>6}{:>11}{:>11}{:>11}{:>10.2f}GB/s{:>8.2f}GB/s\n",
                        to_string(row.operation), windows ? to_string(row.when) : "", row.n,
                        duration_text(row.p50_ns), duration_text(row.p99_ns),
                        duration_text(row.longest_ns), row.algorithm_bytes_per_s / 1e9,
                        row.bus_bytes_per_s / 1e9);
  }
  return text;
}

std::string operations_text(const Summary& summary, bool windows) {
  if (summary.operations.empty()) return {};
  std::string text = fmt::format("\n{:<18}{:<8}{:>9}{:>11}{:>11}{:>11}{:>12}\n", "operation",
                                 windows ? "faults" : "", "n", "p50", "p99", "longest", "rate");
  for (const OperationRow& row : summary.operations) {
    text += fmt::format("{:<18}{:<8}{:>9}{:>11}{:>11}{:>11}{:>10.2f}k/s\n", to_string(row.kind),
                        windows ? to_string(row.when) : "", row.n, duration_text(row.p50_ns),
                        duration_text(row.p99_ns), duration_text(row.longest_ns), row.per_s / 1e3);
  }
  return text;
}

std::string stalls_text(const Summary& summary, bool windows) {
  std::string text;
  for (std::size_t i = 0; i < summary.stalls.size(); ++i) {
    const Stall& stall = summary.stalls[i];
    if (stall.ns == 0) continue;
    text += fmt::format("longest stall{}{}: {}, rank {} at {:.0f}%", windows ? " " : "",
                        windows ? to_string(static_cast<When>(i)) : "", duration_text(stall.ns),
                        summary.stall_ranks[i], 100 * stall.at);
    if (stall.away_ns > 0) {
      text +=
          fmt::format(" (of it {} in which the process did not run)", duration_text(stall.away_ns));
    }
    text += "\n";
  }
  return text;
}

// How all-reduces were divided at the end, if the ranks were asked to find out.
std::string bandwidths_text(const RunOptions& options, const Summary& summary) {
  if (!options.follow_bandwidths) return {};
  if (summary.bandwidths.empty()) return "bandwidths: the same for all ranks at the end\n";
  return fmt::format("bandwidths: all-reduces were divided by {} at the end, by rank\n",
                     fmt::join(summary.bandwidths, ", "));
}

// The packet sizes of the ways between the NICs, and the effects of ways that changed.
std::string ways_text(const Summary& summary) {
  const std::uint64_t least = summary.fragment_bytes_least;
  const std::uint64_t most = summary.fragment_bytes_most;
  std::string text;
  if (most > 0) {
    const std::uint64_t agreed = summary.session_bytes_most;
    text += fmt::format("full packets: {} bytes of payload{}{}\n", least,
                        most == least ? "" : fmt::format(" in one session, {} in another", most),
                        agreed <= most ? "" : fmt::format("; {} before a way shrank", agreed));
  }
  if (const std::uint64_t cut = counter(summary, "datagrams_fragmented"); cut > 0) {
    text += fmt::format(
        "routes: {} packets were longer than the MTU of their route, and the kernel sent them as "
        "IP fragments, several times slower; new messages fit the MTU\n",
        cut);
  }
  if (const std::uint64_t refused = counter(summary, "segmentation_refused"); refused > 0) {
    text += fmt::format("segmentation offload: refused {}, resumed {}\n", counted(refused, "time"),
                        counted(counter(summary, "segmentation_resumed"), "time"));
  }
  if (const std::uint64_t other = counter(summary, "datagrams_by_other_devices"); other > 0) {
    text += fmt::format(
        "devices: {} packets arrived through another device than their NIC's; set "
        "net.ipv4.conf.all.arp_ignore=1 where several devices are in one subnet\n",
        other);
  }
  return text;
}

// Some packets come twice or too late in a run without faults, too: they are listed apart.
std::string drops_text(const Summary& summary, bool late) {
  std::string text;
  for (std::size_t i = 0; i < kDropReasons; ++i) {
    const auto found = summary.drops.find(std::string(kDropReasonTexts[i].name));
    if (found == summary.drops.end() || is_late(static_cast<DropReason>(i)) != late) continue;
    text += fmt::format(" {} {}", found->first, found->second);
  }
  if (text.empty()) return text;
  return (late ? "duplicate and late packets, as in any run:" : "packets not applied:") + text +
         "\n";
}

std::string packets_text(const Summary& summary) {
  const std::uint64_t sent = counter(summary, "data_packets_sent");
  const auto with_share = [&](const char* name) {
    const std::uint64_t value = counter(summary, name);
    return fmt::format("{} ({:.3f}%)", value, percent_of(value, sent));
  };
  std::string text = fmt::format(
      "data packets: {} sent, {} lost, {} fragments retransmitted, {} of them spurious, {} "
      "duplicates received\n",
      sent, with_share("packets_lost"), with_share("fragments_retransmitted"),
      with_share("spurious_retransmits"), counter(summary, "duplicate_fragments"));
  text += fmt::format(
      "recovery: {} lost by gap, {} by request, {} by evacuation; {} probe timeouts; {} paths went "
      "down, {} came back\n",
      counter(summary, "lost_by_gap"), counter(summary, "lost_by_request"),
      counter(summary, "lost_by_evacuation"), counter(summary, "ptos"),
      counter(summary, "paths_down"), counter(summary, "paths_returned"));
  text += ways_text(summary);
  if (const std::uint64_t overruns = counter(summary, "host_overruns"); overruns > 0) {
    text += fmt::format("host: {} packets lost in this host's own receive queues\n", overruns);
  }
  if (const std::uint64_t marked = counter(summary, "packets_marked"); marked > 0) {
    text += fmt::format("congestion: {} packets arrived marked by switches (ECN)\n", marked);
  }
  const std::uint64_t in_place = counter(summary, "payload_bytes_in_place");
  const std::uint64_t copied = counter(summary, "payload_bytes_copied");
  if (in_place + copied > 0) {
    text += fmt::format("RDMA devices: {} of payload read in place, {} copied for them\n",
                        bytes_text(in_place), bytes_text(copied));
  }
  return text + drops_text(summary, true) + drops_text(summary, false);
}

std::string states_text(const NicRow& row) {
  std::string text;
  for (std::size_t state = 0; state < row.states.size(); ++state) {
    if (row.states[state] == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", row.states[state],
                        to_string(static_cast<PathState>(state)));
  }
  return text;
}

nlohmann::json times_json(const Summary& summary) {
  nlohmann::json rows = nlohmann::json::array();
  for (const TimeRow& row : summary.times) {
    rows.push_back({{"operation", to_string(row.operation)},
                    {"faults", to_string(row.when)},
                    {"n", row.n},
                    {"p50_ns", row.p50_ns},
                    {"p99_ns", row.p99_ns},
                    {"longest_ns", row.longest_ns},
                    {"algorithm_bytes_per_s", row.algorithm_bytes_per_s},
                    {"bus_bytes_per_s", row.bus_bytes_per_s}});
  }
  return rows;
}

nlohmann::json operations_json(const Summary& summary) {
  nlohmann::json rows = nlohmann::json::array();
  for (const OperationRow& row : summary.operations) {
    rows.push_back({{"kind", to_string(row.kind)},
                    {"faults", to_string(row.when)},
                    {"n", row.n},
                    {"p50_ns", row.p50_ns},
                    {"p99_ns", row.p99_ns},
                    {"longest_ns", row.longest_ns},
                    {"per_s", row.per_s}});
  }
  return rows;
}

nlohmann::json stalls_json(const Summary& summary) {
  nlohmann::json stalls = nlohmann::json::object();
  for (std::size_t i = 0; i < summary.stalls.size(); ++i) {
    stalls[std::string(to_string(static_cast<When>(i)))] = {{"ns", summary.stalls[i].ns},
                                                            {"away_ns", summary.stalls[i].away_ns},
                                                            {"rank", summary.stall_ranks[i]},
                                                            {"at", summary.stalls[i].at}};
  }
  return stalls;
}

nlohmann::json options_json(const std::optional<Microbenchmark>& benchmark) {
  if (!benchmark) return nullptr;
  const auto names = [](const auto& items) {
    nlohmann::json list = nlohmann::json::array();
    for (const auto item : items) list.push_back(to_string(item));
    return list;
  };
  return {{"collectives", names(benchmark->collectives)},
          {"sizes", benchmark->sizes},
          {"types", names(benchmark->types)},
          {"iterations", benchmark->iterations},
          {"warmup", benchmark->warmup}};
}

}  // namespace

std::string counted(std::uint64_t n, std::string_view what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

std::string duration_text(std::uint64_t ns) {
  const auto value = static_cast<double>(ns);
  if (ns < 1'000'000) return fmt::format("{:.1f} us", value / 1e3);
  if (ns < 1'000'000'000) return fmt::format("{:.2f} ms", value / 1e6);
  return fmt::format("{:.2f} s", value / 1e9);
}

std::string bytes_text(std::uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes < 1'000'000) return fmt::format("{:.1f} kB", value / 1e3);
  if (bytes < 1'000'000'000) return fmt::format("{:.1f} MB", value / 1e6);
  return fmt::format("{:.2f} GB", value / 1e9);
}

std::string nic_table_head() {
  return fmt::format("{:<5}{:<24}{:>10}{:>11}{:>10}{:>9}{:>13}{:>10}{:>11}\n", "NIC", "state",
                     "Gb/s", "sent", "received", "loss", "retransmits", "overruns", "RTT");
}

std::string nic_table_row(std::size_t index, const NicRow& row, double bits_per_s) {
  return fmt::format("{:<5}{:<24}{:>10.2f}{:>11}{:>10}{:>8.3f}%{:>13}{:>10}{:>11}\n", index,
                     states_text(row), bits_per_s / 1e9, bytes_text(row.sum.bytes_sent),
                     bytes_text(row.sum.bytes_received),
                     percent_of(row.sum.packets_lost, row.sum.data_packets_sent),
                     row.sum.retransmits, row.sum.overruns, duration_text(row.sum.srtt_ns));
}

std::string to_text(const Summary& summary, const RunOptions& options) {
  const bool windows = fault_window(options.timed_faults).exists();
  std::string text;
  if (!summary.complete) {
    text += "not complete; the figures are of what the ranks have reported\n";
    for (const std::string& position : summary.positions) text += position + "\n";
    text += "\n";
  }
  if (!summary.times.empty()) {
    text += times_text(summary, windows) + operations_text(summary, windows) + "\n";
  }
  if (!summary.microbenchmark.empty()) text += to_text(summary.microbenchmark, windows) + "\n";
  text += stalls_text(summary, windows);
  for (const std::string& recovery : summary.recoveries) text += recovery + "\n";
  text += packets_text(summary);
  text += bandwidths_text(options, summary);
  text += fmt::format(
      "time: {:.1f} s communicating, {:.1f} s filling and verifying, {:.1f} s "
      "starting; memory: {} of all ranks\n\n",
      summary.communication_s, summary.check_s, summary.setup_s,
      bytes_text(summary.peak_memory_bytes));
  text += nic_table_head();
  for (std::size_t i = 0; i < summary.nics.size(); ++i) {
    const double rate =
        summary.communication_s > 0
            ? 8 * static_cast<double>(summary.nics[i].sum.bytes_sent) / summary.communication_s
            : 0;
    text += nic_table_row(i, summary.nics[i], rate);
  }
  for (std::size_t i = 0; i < summary.nics.size(); ++i) {
    text += networks_text(i, summary.nics[i]);
  }
  text += "\n";
  text += to_text(summary.faults);
  for (const std::string& wrong : summary.wrong) text += fmt::format("WRONG: {}\n", wrong);
  if (summary.complete && summary.wrong.empty()) {
    text += fmt::format(
        "ok: every byte of {} results is right ({} verified), {} messages arrived "
        "once each, nothing leaked\n",
        summary.verified_tasks, bytes_text(summary.verified_bytes),
        counter(summary, "messages_received"));
  }
  return text;
}

nlohmann::json to_json(const Summary& summary, const RunOptions& options,
                       const std::vector<RankResult>& results, double wall_s, int exit_code) {
  nlohmann::json nics = nlohmann::json::array();
  for (const NicRow& row : summary.nics) {
    nlohmann::json nic = row.sum;
    nic.erase("name");
    nic["names"] = row.names;
    nic.erase("state");
    for (std::size_t state = 0; state < row.states.size(); ++state) {
      nic["states"][std::string(to_string(static_cast<PathState>(state)))] = row.states[state];
    }
    nics.push_back(std::move(nic));
  }
  return {{"exit_code", exit_code},
          {"complete", summary.complete},
          {"positions", summary.positions},
          {"wrong", summary.wrong},
          {"options",
           {{"ranks", options.ranks},
            {"nics", options.nics},
            {"workload", options.microbenchmark ? "" : options.workload},
            {"single_collectives", options_json(options.microbenchmark)},
            {"steps", options.steps},
            {"scale", options.scale},
            {"seed", options.seed},
            {"threads", options.threads},
            {"faults", options.lasting_faults}}},
          {"collectives", times_json(summary)},
          {"single_collectives", to_json(summary.microbenchmark)},
          {"operations", operations_json(summary)},
          {"longest_stall", stalls_json(summary)},
          {"counters", summary.counters},
          {"drops", summary.drops},
          {"fragment_bytes",
           {{"least", summary.fragment_bytes_least},
            {"most", summary.fragment_bytes_most},
            {"agreed", summary.session_bytes_most}}},
          {"bandwidths", summary.bandwidths},
          {"verified_bytes", summary.verified_bytes},
          {"verified_results", summary.verified_tasks},
          {"wall_s", wall_s},
          {"communication_s", summary.communication_s},
          {"check_s", summary.check_s},
          {"setup_s", summary.setup_s},
          {"peak_memory_bytes", summary.peak_memory_bytes},
          {"nics", nics},
          {"timed_faults", to_json(summary.faults)},
          {"recoveries", summary.recoveries},
          {"ranks", results}};
}

}  // namespace hawser::tool
