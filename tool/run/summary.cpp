// SPDX-License-Identifier: Apache-2.0
#include "tool/run/summary.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/host/nic_spec.hpp"
#include "tool/run/clock.hpp"

namespace hawser::tool {
namespace {

struct Times {
  std::vector<std::uint64_t> ns;
  double total_s = 0;
  double bytes = 0;
  double bus_bytes = 0;
};

using Parts = std::map<std::pair<Operation, When>, Times>;

// The times of all collectives, each list in ascending order.
Parts time_parts(const RunOptions& options, const Schedule& schedule,
                 const std::vector<RankResult>& results) {
  const std::vector<When> whens = whens_of_tasks(options, schedule);
  Parts parts;
  for (std::size_t i = 0; i < tasks_finished_by_all(results, whens.size()); ++i) {
    const Task& task = schedule.step[i % schedule.step.size()];
    if (task.operation == Operation::barrier) continue;
    std::uint64_t longest = 0;
    for (const RankResult& result : results) longest = std::max(longest, result.task_ns[i]);
    Times& times = parts[{task.operation, whens[i]}];
    times.ns.push_back(longest);
    times.total_s += seconds(longest);
    times.bytes += static_cast<double>(task.bytes());
    times.bus_bytes += static_cast<double>(task.bytes()) *
                       bus_factor(task.operation, schedule.layout[task.group].size);
  }
  for (auto& [key, times] : parts) std::sort(times.ns.begin(), times.ns.end());
  return parts;
}

std::vector<TimeRow> time_rows(const Parts& parts) {
  std::vector<TimeRow> rows;
  for (const auto& [key, times] : parts) {
    TimeRow row;
    row.operation = key.first;
    row.when = key.second;
    row.n = times.ns.size();
    row.p50_ns = percentile(times.ns, 50);
    row.p99_ns = percentile(times.ns, 99);
    row.longest_ns = times.ns.back();
    row.algorithm_bytes_per_s = times.bytes / times.total_s;
    row.bus_bytes_per_s = times.bus_bytes / times.total_s;
    rows.push_back(row);
  }
  return rows;
}

std::vector<OperationRow> operation_rows(const Parts& parts,
                                         const std::vector<RankResult>& results) {
  OperationTimes all;
  for (const RankResult& result : results) all.add(result.operations);
  std::array<double, 3> total_s{};
  for (const auto& [key, times] : parts) {
    if (is_one_sided(key.first)) total_s[static_cast<std::size_t>(key.second)] += times.total_s;
  }
  std::vector<OperationRow> rows;
  for (std::size_t kind = 0; kind < kOneSidedKinds; ++kind) {
    for (std::size_t when = 0; when < total_s.size(); ++when) {
      const LatencyCounts& counts = all.of[kind][when];
      if (counts.count() == 0) continue;
      OperationRow row;
      row.kind = static_cast<OneSidedKind>(kind);
      row.when = static_cast<When>(when);
      row.n = counts.count();
      row.p50_ns = counts.percentile(50);
      row.p99_ns = counts.percentile(99);
      row.longest_ns = counts.longest_ns();
      if (total_s[when] > 0) row.per_s = static_cast<double>(row.n) / total_s[when];
      rows.push_back(row);
    }
  }
  return rows;
}

void add_counters(std::map<std::string, std::uint64_t>& into,
                  const std::map<std::string, std::uint64_t>& from) {
  for (const auto& [name, value] : from) into[name] += value;
}

std::uint64_t value_of(const std::map<std::string, std::uint64_t>& counters, const char* name) {
  const auto found = counters.find(name);
  return found == counters.end() ? 0 : found->second;
}

// A line for each time that all ranks came together again. The n-th recovery of one rank is also
// that of the others, except for the rank that was started again.
std::vector<std::string> recovery_texts(const std::vector<RankResult>& results) {
  struct Reunion {
    std::map<std::string, std::uint32_t> told;  // by status
    std::uint64_t longest_ns = 0;
  };
  std::map<std::pair<std::uint64_t, std::uint32_t>, Reunion> reunions;  // by point and rank
  for (const RankResult& result : results) {
    for (const Recovery& recovery : result.recoveries) {
      Reunion& reunion = reunions[{recovery.point, recovery.peer}];
      ++reunion.told[recovery.status];
      reunion.longest_ns = std::max(reunion.longest_ns, recovery.took_ns);
    }
  }
  std::vector<std::string> texts;
  for (const auto& [key, reunion] : reunions) {
    std::string told;
    for (const auto& [status, ranks] : reunion.told) {
      told += fmt::format("{}{} by {}", told.empty() ? "" : ", ", status, counted(ranks, "rank"));
    }
    texts.push_back(fmt::format(
        "rank {} ended and was restarted: reported as {}; {} repeated, {} after the other ranks "
        "noticed",
        key.second, told,
        key.first == 0 ? std::string("the set-up was") : fmt::format("step {} was", key.first),
        duration_text(reunion.longest_ns)));
  }
  return texts;
}

// "ranks 0, 2: in step 2 of 5, collective 7 of 12 (all_reduce)", a text for each position.
std::vector<std::string> position_texts(const RunOptions& options, const Schedule& schedule,
                                        const std::vector<RankResult>& results) {
  std::map<std::size_t, std::vector<std::uint32_t>> at;  // ranks, by their finished tasks
  std::vector<bool> is_known(options.ranks);
  for (const RankResult& result : results) {
    at[result.task_ns.size()].push_back(result.rank);
    is_known[result.rank] = true;
  }
  std::vector<std::string> texts;
  const auto tell = [&](const std::vector<std::uint32_t>& ranks, const std::string& where) {
    texts.push_back(
        fmt::format("rank{} {}: {}", ranks.size() > 1 ? "s" : "", fmt::join(ranks, ", "), where));
  };
  const std::size_t tasks = schedule.step.size();
  for (const auto& [finished, ranks] : at) {
    const std::size_t step = finished / tasks;
    const std::size_t task = finished % tasks;
    tell(ranks, finished == 0 && !schedule.init.empty() ? "in the set-up or the first collective"
                : step >= options.steps                 ? "all steps done"
                                        : fmt::format("in step {} of {}, collective {} of {} ({})",
                                                      step + 1, options.steps, task + 1, tasks,
                                                      to_string(schedule.step[task].operation)));
  }
  std::vector<std::uint32_t> silent;
  for (std::uint32_t rank = 0; rank < options.ranks; ++rank) {
    if (!is_known[rank]) silent.push_back(rank);
  }
  if (!silent.empty()) tell(silent, "no report");
  return texts;
}

void find_wrong(Summary& summary, const std::vector<RankResult>& results) {
  for (const RankResult& result : results) {
    const auto tell = [&](const std::string& text) {
      summary.wrong.push_back(fmt::format("rank {}: {}", result.rank, text));
    };
    for (const std::string& text : result.wrong) tell(text);
    if (result.damaged_guard_bytes > 0) {
      tell(fmt::format("{} bytes beside buffers were written", result.damaged_guard_bytes));
    }
    if (result.failure) continue;  // a failure's leftovers are no leak
    if (result.operations_left > 0) {
      tell(fmt::format("{} operations never completed", result.operations_left));
    }
    if (result.buffers_left > 0) tell(fmt::format("{} packets leaked", result.buffers_left));
    if (result.unexpected_bytes_left > 0) {
      tell(fmt::format("{} bytes of messages that nobody received", result.unexpected_bytes_left));
    }
  }
  // The received count of a process that is gone is unknown, so the counts begin at the last
  // meeting.
  std::uint64_t sent = value_of(summary.counters, "messages_sent");
  std::uint64_t received = value_of(summary.counters, "messages_received");
  for (const RankResult& result : results) {
    sent -= result.messages_sent_before;
    received -= result.messages_received_before;
  }
  if (summary.complete && sent != received) {
    summary.wrong.push_back(fmt::format("{} messages were sent and {} received", sent, received));
  }
}

}  // namespace

std::uint64_t percentile(const std::vector<std::uint64_t>& ascending, double percent) {
  if (ascending.empty()) return 0;
  const auto rank =
      static_cast<std::size_t>(std::ceil(percent / 100 * static_cast<double>(ascending.size())));
  return ascending[std::max<std::size_t>(rank, 1) - 1];
}

std::vector<When> whens_of_tasks(const RunOptions& options, const Schedule& schedule) {
  const FaultWindow window = fault_window(options.timed_faults);
  double total = 0;
  for (const Task& task : schedule.step) {
    total += static_cast<double>(expected_receive_bytes(task, schedule.layout));
  }
  std::vector<When> whens;
  for (std::uint32_t step = 0; step < options.steps; ++step) {
    const double begin = static_cast<double>(step) / options.steps;
    const double end = static_cast<double>(step + 1) / options.steps;
    double done = 0;
    for (const Task& task : schedule.step) {
      const double from = begin + (end - begin) * done / total;
      done += static_cast<double>(expected_receive_bytes(task, schedule.layout));
      const bool last = &task == &schedule.step.back();
      whens.push_back(classify(window, from, last ? end : begin + (end - begin) * done / total));
    }
  }
  return whens;
}

std::size_t tasks_finished_by_all(const std::vector<RankResult>& results, std::size_t all) {
  for (const RankResult& result : results) all = std::min(all, result.task_ns.size());
  return all;
}

double bus_factor(Operation operation, std::uint32_t ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (operation) {
    case Operation::all_reduce: return 2 * others;
    case Operation::reduce_scatter:
    case Operation::all_gather:
    case Operation::all_to_all:
    case Operation::gather:
    case Operation::scatter:
    case Operation::put:
    case Operation::get:
    case Operation::atomics:
    case Operation::dispatch:
    case Operation::combine: return others;
    case Operation::broadcast:
    case Operation::reduce:
    case Operation::shift_next:
    case Operation::shift_prev: return 1;
    case Operation::barrier: break;
  }
  return 0;
}

namespace {

std::string network_of(std::string_view name) {
  if (engine::is_verbs_name(name)) return engine::verbs_name(engine::verbs_device(name));
  if (!engine::is_udp_name(name)) return std::string(name);
  const std::string_view address = engine::udp_place(name).address;
  if (address.starts_with("127.") || address == "::1") return "loopback";
  const std::size_t last = address.find_last_of(".:");
  return std::string(
             address.substr(0, last == std::string_view::npos ? address.size() : last + 1)) +
         "x";
}

}  // namespace

std::string networks_text(std::size_t index, const NicRow& row) {
  std::vector<std::pair<std::string, std::vector<std::size_t>>> networks;
  for (std::size_t rank = 0; rank < row.names.size(); ++rank) {
    const std::string network = network_of(row.names[rank]);
    const auto known =
        std::ranges::find(networks, network, [](const auto& one) { return one.first; });
    if (known == networks.end()) {
      networks.push_back({network, {rank}});
    } else {
      known->second.push_back(rank);
    }
  }
  if (networks.size() < 2) return {};
  std::string text;
  for (const auto& [network, ranks] : networks) {
    text += fmt::format("{}{} at rank{} {}", text.empty() ? "" : "; ", network,
                        ranks.size() > 1 ? "s" : "", fmt::join(ranks, ", "));
  }
  return fmt::format("NIC {} is of several networks: {}\n", index, text);
}

std::vector<NicRow> add_up_nics(const std::vector<const std::vector<NicSample>*>& ranks) {
  std::vector<NicRow> rows;
  std::vector<std::uint64_t> known;
  for (const std::vector<NicSample>* nics : ranks) {
    rows.resize(std::max(rows.size(), nics->size()));
    known.resize(rows.size());
    for (std::size_t i = 0; i < nics->size(); ++i) {
      const NicSample& nic = (*nics)[i];
      NicSample& sum = rows[i].sum;
      sum.packets_sent += nic.packets_sent;
      sum.data_packets_sent += nic.data_packets_sent;
      sum.packets_received += nic.packets_received;
      sum.bytes_sent += nic.bytes_sent;
      sum.bytes_received += nic.bytes_received;
      sum.packets_lost += nic.packets_lost;
      sum.retransmits += nic.retransmits;
      sum.overruns += nic.overruns;
      sum.srtt_ns += nic.srtt_ns;
      known[i] += nic.srtt_ns > 0;
      ++rows[i].states[static_cast<std::size_t>(nic.state)];
      rows[i].names.push_back(nic.name);
    }
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (known[i] > 0) rows[i].sum.srtt_ns /= known[i];
  }
  return rows;
}

Summary summarize(const RunOptions& options, const Schedule& schedule,
                  const std::vector<RankResult>& results) {
  Summary summary;
  summary.complete = results.size() == options.ranks;
  std::vector<const std::vector<NicSample>*> nics;
  for (const RankResult& result : results) {
    summary.complete = summary.complete && !result.failure;
    summary.begun = summary.begun || result.begun_ns != 0;
    add_counters(summary.counters, result.counters);
    add_counters(summary.drops, result.drops);
    if (const std::uint64_t least = result.fragment_bytes_least; least > 0) {
      const std::uint64_t known = summary.fragment_bytes_least;
      summary.fragment_bytes_least = known == 0 ? least : std::min(known, least);
    }
    summary.fragment_bytes_most = std::max(summary.fragment_bytes_most, result.fragment_bytes_most);
    summary.session_bytes_most = std::max(summary.session_bytes_most, result.session_bytes_most);
    if (!result.bandwidths.empty()) summary.bandwidths = result.bandwidths;
    summary.verified_bytes += result.verified_bytes;
    summary.verified_tasks += result.verified_tasks;
    summary.communication_s = std::max(summary.communication_s, seconds(result.communication_ns));
    summary.check_s = std::max(summary.check_s, seconds(result.check_ns));
    summary.setup_s = std::max(summary.setup_s, seconds(result.setup_ns));
    summary.peak_memory_bytes += result.peak_memory_bytes;
    for (std::size_t when = 0; when < result.stalls.size(); ++when) {
      if (result.stalls[when].ns <= summary.stalls[when].ns) continue;
      summary.stalls[when] = result.stalls[when];
      summary.stall_ranks[when] = result.rank;
    }
    nics.push_back(&result.nics);
  }
  summary.nics = add_up_nics(nics);
  if (results.size() == options.ranks) {
    const Parts parts = time_parts(options, schedule, results);
    if (options.microbenchmark) {
      summary.microbenchmark = microbenchmark_rows(options, schedule, results);
    } else {
      summary.times = time_rows(parts);
    }
    summary.operations = operation_rows(parts, results);
  }
  summary.faults = compare_faults(options, results);
  summary.recoveries = recovery_texts(results);
  if (!summary.complete) summary.positions = position_texts(options, schedule, results);
  find_wrong(summary, results);
  return summary;
}

}  // namespace hawser::tool
