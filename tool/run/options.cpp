// SPDX-License-Identifier: Apache-2.0
#include "tool/run/options.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "engine/driver/fault/fault_spec.hpp"
#include "engine/driver/verbs/verbs.hpp"
#include "engine/host/nic_family.hpp"
#include "engine/host/nic_list.hpp"
#include "hawser/nics.hpp"
#include "tool/error.hpp"
#include "tool/run/verbs_words.hpp"
#include "tool/workload/builtin.hpp"
#include "tool/workload/files.hpp"

namespace hawser::tool {
namespace {

// Refuses text that CLI11's conversions accept: signs and overflows of unsigned numbers, and "nan".
std::string whole_number(const std::string& text) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  return error == std::errc{} && at == end ? ""
                                           : "'" + text + "' is not a number from 0 to 2^64 - 1";
}
std::string a_number(const std::string& text) {
  return text.find_first_not_of("0123456789.eE+") == std::string::npos
             ? ""
             : "'" + text + "' is not a number of seconds";
}

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}
// Checks a number for --nics; a list is checked later, with the NICs of the host.
std::string number_of_nics(const std::string& text) {
  std::string number = text;
  return is_number(text) ? CLI::Range(1u, kMaxNics)(number) : "";
}

// The word of the fault grammar for `--name value`.
std::string lasting_fault(std::string_view name, const std::string& value) {
  // A comma would add another word to the grammar.
  if (value.find(',') != std::string::npos) {
    throw InputError(fmt::format("--{} {}: give one value", name, value));
  }
  const std::string word = fmt::format("{}={}", name, value);
  engine::FaultSettings settings;
  engine::FaultActions actions;
  if (const auto error = engine::parse_fault_spec(word, settings, actions)) {
    throw InputError(fmt::format("--{} {} {}", name, value, error->reason));
  }
  return word;
}

void set_tunable(Tunables& tunables, const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  const auto row = std::find_if(kTunables.begin(), kTunables.end(),
                                [&](const TunableRow& some) { return some.name == name; });
  if (equals == std::string::npos || row == kTunables.end()) {
    throw InputError(fmt::format(
        "--tunable {}: expected NAME=VALUE with a name that `hawser info` lists", text));
  }
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data() + equals + 1, end, value);
  if (parsed.ec != std::errc{} || parsed.ptr != end || tunables.set(name, value) != Status::ok) {
    throw InputError(fmt::format("--tunable {}: {} takes {} to {} ({})", text, name, row->minimum,
                                 row->maximum, row->unit));
  }
}

std::string workload_help() {
  std::string text = "what to replay: a file (SimAI/ASTRA text or AICB csv), or one of\n";
  for (const BuiltinWorkload& workload : builtin_workloads()) {
    text += fmt::format("  {}: {}\n", workload.name, workload.text);
  }
  return text;
}

void check_timed(const RunOptions& options, const TimedFault& fault) {
  if (fault.rank && *fault.rank >= options.ranks) {
    throw InputError(fmt::format("a fault names rank {}; ranks go from 0 to {}", *fault.rank,
                                 options.ranks - 1));
  }
  if (fault.of_nic() && fault.nic >= options.nics) {
    throw InputError(
        fmt::format("a fault names NIC {}; NICs go from 0 to {}", fault.nic, options.nics - 1));
  }
}

}  // namespace

std::string RunOptions::engine_faults(std::uint32_t rank) const {
  const bool nic_faults = std::any_of(timed_faults.begin(), timed_faults.end(),
                                      [](const TimedFault& fault) { return fault.of_nic(); });
  if (lasting_faults.empty() && !nic_faults) return {};
  // One seed for the run, another stream for each rank.
  const std::uint64_t rank_seed = seed * 1'000'003 + rank;
  return fmt::format("seed={}{}{}", rank_seed, lasting_faults.empty() ? "" : ",", lasting_faults);
}

std::string RunOptions::name_of_workload() const {
  if (!microbenchmark) return "workload " + workload;
  std::vector<std::string_view> names;
  std::ranges::transform(microbenchmark->collectives, std::back_inserter(names),
                         [](Operation operation) { return to_string(operation); });
  if (names == std::vector{to_string(Operation::barrier)}) return "barrier";
  return fmt::format("{} of {} to {} bytes", fmt::join(names, ", "), microbenchmark->sizes.front(),
                     microbenchmark->sizes.back());
}

Workload workload_of(const RunOptions& options) {
  return options.microbenchmark ? microbenchmark_workload(*options.microbenchmark, options.ranks)
                                : load_workload(options.workload);
}

std::uint32_t RunOptions::restarts_of(std::uint32_t rank) const {
  return static_cast<std::uint32_t>(
      std::count_if(timed_faults.begin(), timed_faults.end(), [rank](const TimedFault& fault) {
        return fault.kind == TimedFault::Kind::restart_rank && fault.rank == rank;
      }));
}

RunOptionParser::RunOptionParser(CLI::App& app) {
  RunOptions& o = options_;
  ranks_ = app.add_option("--ranks", o.ranks, "rank processes to start (8)")
               ->check(CLI::Range(1u, kMaxRanks));
  app.add_option("--nics", nics_,
                 "number of NICs of each rank, on loopback addresses of its own (4); or a list as "
                 "for --nic, as in if:eth*,!docker*")
      ->check(number_of_nics);
  app.add_option("--nic", o.nic_addresses,
                 "a NIC of every rank, instead: udp:ADDRESS or verbs:DEVICE[:PORT][@GID_INDEX]; or "
                 "a pattern that chooses NICs on each host: if:NAME (* and ? are wildcards) or "
                 "net:PREFIX; a ! before a pattern excludes NICs. The option may be repeated, take "
                 "a list with commas, or be set as HAWSER_NICS. The word verbs alone stands for "
                 "every usable RDMA port of the host; if there is none, it stands for UDP NICs as "
                 "without --nic. `hawser info --nics LIST` explains a choice")
      ->allow_extra_args(false);
  workload_ = app.add_option("--workload", o.workload, workload_help());
  steps_ = app.add_option("--steps", o.steps, "number of times to run the workload's step (6)")
               ->check(CLI::Range(1u, kMaxSteps));
  scale_ = app.add_option("--scale", o.scale, "divide all sizes by this (1)")
               ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40));
  app.add_option("--seed", o.seed, "seed of contents, splits and faults (1)")->check(whole_number);
  app.add_option("--threads", o.threads, "engine threads of a rank; 0: progress is inline (0)")
      ->check(CLI::Range(0u, 64u));
  app.add_flag("--pin", o.pin, "pin rank r to processor r modulo their number");
  CLI::Option* follow =
      app.add_flag("--follow-bandwidths", o.follow_bandwidths,
                   "ranks find out who has lost NICs, and move less over the links of such ranks");
  app.add_option("--check-bytes", o.check_bytes,
                 "bytes of all-reduces after which they look again (268435456)")
      ->needs(follow);
  app.add_option("--timeout", o.timeout_s, "seconds after which the run is ended (600)")
      ->check(CLI::Range(0.1, 1e6))
      ->check(a_number);
  app.add_option("--trace", o.trace,
                 "each rank writes what its endpoint does, packet by packet, to FILE.RANK as CSV");
  app.add_option("--json", o.json, "write the report to this file as JSON; - is standard output");
  app.add_option("--tunable", tunable_, "NAME=VALUE, see `hawser info`; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--attack", attack_,
                 "KIND[:RATE]: another process sends hostile datagrams to the ranks: garbage, "
                 "truncated, replay or forged; RATE packets a second (as many as it can); may be "
                 "repeated")
      ->allow_extra_args(false);
  add_microbenchmark(app);
  add_lasting_faults(app);
  add_timed_faults(app);
}

void RunOptionParser::add_microbenchmark(CLI::App& app) {
  const std::string group = "Single collectives, instead of a workload";
  collective_ =
      app.add_option("--collective", collectives_,
                     "run these, with a table as of nccl-tests: all, or a list of all_reduce, "
                     "reduce_scatter, all_gather, all_to_all, broadcast, reduce, gather, scatter, "
                     "barrier; --steps is then 1 unless it is given")
          ->excludes(workload_)
          ->excludes(scale_)
          ->group(group);
  const auto add = [&](const char* name, auto& value, const char* text) {
    return app.add_option(name, value, text)->needs(collective_)->group(group);
  };
  add("--sizes", sizes_,
      "FROM[:TO[:FACTOR]]: bytes of a rank, with K, M and G for 2^10, 2^20 and 2^30 (8:8M:4)");
  add("--types", types_,
      "what to sum: all, or a list of f32, f64, f16, bf16, i32, i64, i8, u8, f8e4m3, f8e5m2 (f32)");
  add("--iterations", microbenchmark_.iterations, "times that each is measured (20)")
      ->check(CLI::Range(1u, kMaxSteps));
  add("--warmup", microbenchmark_.warmup, "times that each runs before that (5)")
      ->check(CLI::Range(0u, kMaxSteps));
}

void RunOptionParser::add_lasting_faults(CLI::App& app) {
  const std::string lasting = "Faults of every NIC, all the time";
  app.add_option("--loss", loss_, "probability that a packet is lost")->group(lasting);
  app.add_option("--burst-loss", burst_loss_,
                 "P/R[/L]: probabilities that a burst begins (P), that it ends (R), and that it "
                 "loses a packet (L, 1)")
      ->group(lasting);
  app.add_option("--duplicate", duplicate_, "probability that a packet is duplicated")
      ->group(lasting);
  app.add_option("--reorder", reorder_,
                 "P[/DEPTH]: probability that DEPTH (3) packets overtake one")
      ->group(lasting);
  app.add_option("--delay", delay_,
                 "TIME[/JITTER] by which packets are delayed, such as 100us/50us")
      ->group(lasting);
  app.add_option("--corrupt", corrupt_, "probability that bits of a packet flip")->group(lasting);
}

void RunOptionParser::add_timed_faults(CLI::App& app) {
  const std::string timed = "Faults at a moment (WHEN: fraction of the steps, such as 1/3)";
  app.add_option("--kill-nic", kill_nic_,
                 "[RANK.]NIC@WHEN[:event]: the NIC dies, silently unless :event; without RANK, "
                 "that of every rank")
      ->allow_extra_args(false)
      ->group(timed);
  app.add_option("--revive-nic", revive_nic_,
                 "[RANK.]NIC@WHEN[:event]: a killed, degraded or black-hole NIC recovers")
      ->allow_extra_args(false)
      ->group(timed);
  app.add_option("--degrade-nic", degrade_nic_,
                 "[RANK.]NIC@WHEN[:RATE]: the NIC carries only RATE bytes a second (50M)")
      ->allow_extra_args(false)
      ->group(timed);
  app.add_option("--blackhole", blackhole_,
                 "[RANK.]NIC@WHEN[:tx|:rx|:both]: the packets that the NIC sends, receives, or "
                 "both (both) are lost, silently")
      ->allow_extra_args(false)
      ->group(timed);
  app.add_option("--kill-rank", kill_rank_, "RANK@WHEN: the rank gets SIGKILL")
      ->allow_extra_args(false)
      ->group(timed);
  app.add_option("--restart-rank", restart_rank_,
                 "RANK@WHEN: the rank gets SIGKILL and is restarted, and the job continues")
      ->allow_extra_args(false)
      ->group(timed);
}

void RunOptionParser::finish_lasting_faults() {
  RunOptions& o = options_;
  const auto add = [&](std::string_view name, const std::string& value) {
    if (value.empty()) return;
    if (!o.lasting_faults.empty()) o.lasting_faults += ',';
    o.lasting_faults += lasting_fault(name, value);
  };
  add("loss", loss_);
  add("burst-loss", burst_loss_);
  add("duplicate", duplicate_);
  add("reorder", reorder_);
  add("delay", delay_);
  add("corrupt", corrupt_);
}

void RunOptionParser::finish_timed_faults() {
  RunOptions& o = options_;
  using Kind = TimedFault::Kind;
  const auto add = [&](auto parse, Kind kind, std::string_view option,
                       const std::vector<std::string>& texts) {
    for (const std::string& text : texts) o.timed_faults.push_back(parse(kind, option, text));
  };
  add(parse_nic_fault, Kind::kill_nic, "--kill-nic", kill_nic_);
  add(parse_nic_fault, Kind::revive_nic, "--revive-nic", revive_nic_);
  add(parse_nic_fault, Kind::degrade_nic, "--degrade-nic", degrade_nic_);
  add(parse_nic_fault, Kind::blackhole_nic, "--blackhole", blackhole_);
  add(parse_rank_fault, Kind::kill_rank, "--kill-rank", kill_rank_);
  add(parse_rank_fault, Kind::restart_rank, "--restart-rank", restart_rank_);
  for (const TimedFault& fault : o.timed_faults) check_timed(o, fault);
  std::stable_sort(o.timed_faults.begin(), o.timed_faults.end(),
                   [](const TimedFault& a, const TimedFault& b) { return a.when < b.when; });
}

// All that chooses NICs, as one list; empty if nothing does.
std::string RunOptionParser::nic_list() const {
  const std::vector<std::string>& names = options_.nic_addresses;
  const bool is_list = !nics_.empty() && !is_number(nics_);
  if (is_list && !names.empty()) {
    throw InputError("--nics " + nics_ + " and --nic: put all NICs into one list");
  }
  if (is_list) return nics_;
  if (!names.empty()) return fmt::format("{}", fmt::join(names, ","));
  const char* const variable = std::getenv("HAWSER_NICS");
  return variable == nullptr ? "" : variable;
}

// Handles `--nic verbs`, which stands alone.
void RunOptionParser::choose_verbs_ports() {
  RunOptions& o = options_;
  if (o.nic_addresses.size() > 1) {
    throw InputError("--nic verbs stands for all RDMA ports: leave the other --nic out");
  }
  VerbsChoice choice = choose_verbs(engine::has_verbs(), engine::verbs_ports(), kMaxNics);
  o.nic_addresses = std::move(choice.nics);
  o.nic_notes = std::move(choice.notes);
}

void RunOptionParser::finish_microbenchmark() {
  if (collective_->count() == 0) return;
  microbenchmark_.collectives = parse_collectives(collectives_);
  microbenchmark_.sizes = parse_sizes(sizes_);
  microbenchmark_.types = parse_types(types_);
  options_.microbenchmark = microbenchmark_;
  if (steps_->count() == 0) options_.steps = 1;
}

void RunOptionParser::finish_nics() {
  RunOptions& o = options_;
  if (is_number(nics_)) o.nics = static_cast<std::uint32_t>(std::stoul(nics_));
  if (std::ranges::find(o.nic_addresses, "verbs") != o.nic_addresses.end()) {
    choose_verbs_ports();
  } else if (const std::string list = nic_list(); !list.empty()) {
    const bool are_names =
        !o.nic_addresses.empty() && std::ranges::all_of(o.nic_addresses, engine::is_nic_name);
    if (!are_names) {
      engine::DeviceChoice chosen = engine::choose_devices(list, host_nics());
      o.nic_addresses = std::move(chosen.choice.nics);
      o.nic_notes = std::move(chosen.choice.notes);
      o.nic_devices = std::move(chosen.devices);
    }
    if (is_number(nics_) && o.nic_addresses.size() > o.nics) o.nic_addresses.resize(o.nics);
  }
  if (o.nic_addresses.size() > kMaxNics) {
    throw InputError(
        fmt::format("{} NICs; at most {} are possible", o.nic_addresses.size(), kMaxNics));
  }
  if (!o.nic_addresses.empty()) o.nics = static_cast<std::uint32_t>(o.nic_addresses.size());
}

RunOptions RunOptionParser::finish(std::uint32_t joined_ranks, std::string_view said_by) {
  RunOptions& o = options_;
  if (joined_ranks > 0) {
    if (ranks_->count() > 0 && o.ranks != joined_ranks) {
      throw InputError(
          fmt::format("--ranks {} contradicts {}: they make this process one of {} ranks that "
                      "others start. Leave --ranks out, or unset these variables",
                      o.ranks, said_by, joined_ranks));
    }
    o.ranks = joined_ranks;
  }
  finish_microbenchmark();
  finish_lasting_faults();
  finish_nics();
  finish_timed_faults();
  for (const std::string& text : attack_) o.attacks.push_back(parse_attack(text));

  // A rank waits for all others at every step; every rank connects to every other.
  o.tunables.max_peers = std::max<std::uint64_t>(o.tunables.max_peers, o.ranks);
  for (const std::string& text : tunable_) set_tunable(o.tunables, text);
  return o;
}

}  // namespace hawser::tool
