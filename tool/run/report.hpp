// SPDX-License-Identifier: Apache-2.0
// The reports of a rank, while it runs and at its end. Also the lines that carry them to the
// launcher.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "hawser/stats.hpp"
#include "tool/attack/attack.hpp"
#include "tool/exit_code.hpp"
#include "tool/run/latencies.hpp"
#include "tool/run/verdicts.hpp"

namespace hawser::tool {

// One NIC at one moment, counters from the start.
struct NicSample {
  std::string name;
  PathState state = PathState::up;
  std::uint64_t packets_sent = 0;
  std::uint64_t data_packets_sent =
      0;  // of them, those that are acknowledged; others can't be lost
  std::uint64_t packets_received = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t packets_lost = 0;
  std::uint64_t retransmits = 0;
  std::uint64_t overruns = 0;
  std::uint64_t srtt_ns = 0;
};

struct Progress {
  double done = 0;  // of the run, 0 to 1
  std::vector<NicSample> nics;
};

// The longest time in which a rank that was in a collective got neither a byte nor a completion.
struct Stall {
  std::uint64_t ns = 0;
  std::uint64_t away_ns = 0;  // the longest part of it in which the process itself did not run
  double at = 0;              // fraction of the run
};

// How a rank failed, in words for the person who reads them.
struct RankFailure {
  ExitCode code = ExitCode::wrong;
  std::string status;                 // name of the Status, where there is one
  std::optional<std::uint32_t> peer;  // the rank to blame, where it is known
  std::string text;
};

// A timed fault that a rank has applied to itself.
struct Injected {
  std::uint32_t index = 0;  // in RunOptions::timed_faults
  std::uint64_t at_ns = 0;  // since the rank's run began
};

// A failure after which the rank went on together with the others.
struct Recovery {
  std::uint32_t peer = 0;     // the rank that failed
  std::string status;         // as this rank was told
  std::uint64_t point = 0;    // where all ranks went on: 0 the set-up, then steps from 1
  std::uint64_t took_ns = 0;  // from noticing the failure to going on
};

struct RankResult {
  std::uint32_t rank = 0;
  std::optional<RankFailure> failure;
  std::vector<std::uint64_t> task_ns;  // of each finished task of each step, in order
  OperationTimes operations;           // one-sided
  std::array<Stall, 3> stalls{};       // by When
  std::uint64_t verified_bytes = 0;
  std::uint64_t verified_tasks = 0;
  std::uint64_t verified_times = 0;  // of task_ns: the results of these have been checked
  std::uint64_t wrong_elements = 0;
  std::uint64_t damaged_guard_bytes = 0;
  std::vector<std::string> wrong;                        // the first few mismatches, for people
  std::map<std::uint64_t, std::uint64_t> wrong_of_task;  // wrong elements, by place in task_ns
  std::map<std::string, std::uint64_t> counters;
  std::map<std::string, std::uint64_t> drops;  // those above 0
  // Taken after the last barrier, when all should be quiet.
  std::uint64_t operations_left = 0;
  std::uint64_t buffers_left = 0;
  std::uint64_t unexpected_bytes_left = 0;
  // The payload of a full packet: the least and the most of all sessions.
  std::uint64_t fragment_bytes_least = 0;
  std::uint64_t fragment_bytes_most = 0;
  std::uint64_t session_bytes_most = 0;  // as agreed at a session's begin
  // By which all-reduces were divided at the end, by rank; empty: all were equal.
  std::vector<std::uint8_t> bandwidths;
  std::vector<NicSample> nics;
  std::vector<Injected> injected;
  std::vector<PathChange> path_changes;
  std::uint64_t path_changes_left_out = 0;
  std::uint32_t life = 0;  // processes that were this rank before
  std::vector<Recovery> recoveries;
  // The counters when all ranks had come together last.
  std::uint64_t messages_sent_before = 0;
  std::uint64_t messages_received_before = 0;
  std::uint64_t begun_ns = 0;  // when its run began, by its host's clock
  std::uint64_t setup_ns = 0;
  std::uint64_t communication_ns = 0;  // between the barriers around the batches
  std::uint64_t check_ns = 0;          // filling and verifying
  std::uint64_t peak_memory_bytes = 0;
};

// The most collectives of a run, as every rank keeps and reports the time of each.
inline constexpr std::uint64_t kMaxTimedTasks = std::uint64_t{1} << 24;
// No line of a message is as long.
inline constexpr std::size_t kMaxLineBytes = std::size_t{64} << 20;

// A message of a rank, or of an attacker, to the launcher.
struct RankMessage {
  std::optional<Progress> progress;
  std::optional<std::string> note;  // what happened, for people
  std::optional<RankResult> result;
  std::optional<AttackResult> attack;
  // The next times of a result whose line is still to come.
  std::vector<std::uint64_t> task_ns;
};

// One line, ending with a newline. A result of many collectives is several lines, of which only the
// last one has `result`.
[[nodiscard]] std::string to_lines(const RankMessage& message);
// Nothing if the line does not come from to_lines.
[[nodiscard]] std::optional<RankMessage> from_line(const std::string& line);

// Puts the lines of one sender together.
class MessageReader {
 public:
  // The message that this line completes; nothing if more lines follow, or if it is not of
  // to_lines.
  [[nodiscard]] std::optional<RankMessage> read(const std::string& line);

 private:
  std::vector<std::uint64_t> task_ns_;
};

void to_json(nlohmann::json& json, const NicSample& sample);
void from_json(const nlohmann::json& json, NicSample& sample);
void to_json(nlohmann::json& json, const Injected& fault);
void from_json(const nlohmann::json& json, Injected& fault);
void to_json(nlohmann::json& json, const Recovery& recovery);
void from_json(const nlohmann::json& json, Recovery& recovery);
void to_json(nlohmann::json& json, const PathChange& change);
void from_json(const nlohmann::json& json, PathChange& change);
void to_json(nlohmann::json& json, const RankResult& result);
void from_json(const nlohmann::json& json, RankResult& result);

}  // namespace hawser::tool
