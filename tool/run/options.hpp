// SPDX-License-Identifier: Apache-2.0
// The checked options of `hawser run`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/host/nic_family.hpp"
#include "hawser/collectives.hpp"
#include "hawser/tunables.hpp"
#include "tool/attack/attack.hpp"
#include "tool/run/fault_plan.hpp"
#include "tool/workload/microbenchmark.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace hawser::tool {

inline constexpr std::uint32_t kMaxRanks = 1024;
inline constexpr std::uint32_t kMaxNics = 16;
inline constexpr std::uint32_t kMaxSteps = 1'000'000;

struct RunOptions {
  std::uint32_t ranks = 8;
  std::uint32_t nics = 4;
  std::vector<std::string>
      nic_addresses;  // instead of loopback ones; every rank of a host has these
  // The choice of a list on this host: more than nic_addresses if --nics asks for fewer. Empty if
  // all NICs are named.
  std::vector<engine::ChosenNic> nic_devices;
  std::vector<std::string> nic_notes;  // lines about NICs that were asked for and are missing
  std::string workload = "gpt2";
  std::optional<Microbenchmark> microbenchmark;  // instead of a workload
  std::uint32_t steps = 6;
  std::uint64_t scale = 1;
  std::uint64_t seed = 1;
  unsigned threads = 0;
  bool pin = false;
  bool follow_bandwidths = false;  // as the options of communicators
  std::uint64_t check_bytes = coll::CommunicatorOptions{}.check_bytes;
  double timeout_s = 600;
  std::string trace;  // file name of the ranks' traces, to which each adds its number; empty: none
  std::string json;   // file for the report; "-" is standard output; empty: none
  Tunables tunables{};
  std::string lasting_faults;  // words of the fault grammar, without seed
  std::vector<TimedFault> timed_faults;
  std::vector<Attack> attacks;

  // For people.
  [[nodiscard]] std::string name_of_workload() const;

  // How often the rank is to be started again.
  [[nodiscard]] std::uint32_t restarts_of(std::uint32_t rank) const;

  // The fault words for the engine of a rank; empty if no fault is asked for.
  [[nodiscard]] std::string engine_faults(std::uint32_t rank) const;
};

// The workload that the options choose. Throws InputError.
[[nodiscard]] Workload workload_of(const RunOptions& options);

// Adds the options to `app`, to be filled when it parses, and returns what finish() needs.
class RunOptionParser {
 public:
  explicit RunOptionParser(CLI::App& app);
  // After parsing: checks, and translates what is text. A rank that joins others knows their number
  // from elsewhere; 0 means that it joins none. `said_by` tells people from where. --ranks may give
  // the same number, but no other. Throws InputError.
  [[nodiscard]] RunOptions finish(std::uint32_t joined_ranks, std::string_view said_by = {});

 private:
  void add_microbenchmark(CLI::App& app);
  void add_lasting_faults(CLI::App& app);
  void add_timed_faults(CLI::App& app);
  [[nodiscard]] std::string nic_list() const;
  void choose_verbs_ports();
  void finish_microbenchmark();
  void finish_nics();
  void finish_lasting_faults();
  void finish_timed_faults();

  RunOptions options_;
  CLI::Option* ranks_ = nullptr;
  CLI::Option* steps_ = nullptr;
  CLI::Option* workload_ = nullptr;
  CLI::Option* scale_ = nullptr;
  CLI::Option* collective_ = nullptr;
  Microbenchmark microbenchmark_;
  std::string collectives_;
  std::string sizes_ = "8:8M:4";
  std::string types_ = "f32";
  std::string nics_;  // a number or a list
  std::string loss_, burst_loss_, duplicate_, reorder_, delay_, corrupt_;
  std::vector<std::string> kill_nic_, revive_nic_, degrade_nic_, blackhole_, kill_rank_,
      restart_rank_, attack_, tunable_;
};

}  // namespace hawser::tool
