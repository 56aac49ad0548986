// SPDX-License-Identifier: Apache-2.0
#include "tool/run/report.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "tool/utf8.hpp"

namespace hawser::tool {

using nlohmann::json;

namespace {

// Times of collectives in one line; the rest of a result takes far less than such a line.
constexpr std::size_t kTimesPerLine = 8192;
constexpr std::size_t kMostTimeBytes = 21;  // "18446744073709551615,"
static_assert(kTimesPerLine * kMostTimeBytes < kMaxLineBytes / 2);

// One table for both directions, so that they cannot differ.
template <typename Visit, typename Sample>
void visit_nic(Sample& sample, Visit visit) {
  visit("name", sample.name);
  visit("packets_sent", sample.packets_sent);
  visit("data_packets_sent", sample.data_packets_sent);
  visit("packets_received", sample.packets_received);
  visit("bytes_sent", sample.bytes_sent);
  visit("bytes_received", sample.bytes_received);
  visit("packets_lost", sample.packets_lost);
  visit("retransmits", sample.retransmits);
  visit("overruns", sample.overruns);
  visit("srtt_ns", sample.srtt_ns);
}

template <typename Visit, typename Result>
void visit_result(Result& result, Visit visit) {
  visit("rank", result.rank);
  visit("verified_bytes", result.verified_bytes);
  visit("verified_tasks", result.verified_tasks);
  visit("verified_times", result.verified_times);
  visit("wrong_elements", result.wrong_elements);
  visit("damaged_guard_bytes", result.damaged_guard_bytes);
  visit("wrong", result.wrong);
  visit("wrong_of_task", result.wrong_of_task);
  visit("operations", result.operations);
  visit("counters", result.counters);
  visit("drops", result.drops);
  visit("operations_left", result.operations_left);
  visit("buffers_left", result.buffers_left);
  visit("unexpected_bytes_left", result.unexpected_bytes_left);
  visit("fragment_bytes_least", result.fragment_bytes_least);
  visit("fragment_bytes_most", result.fragment_bytes_most);
  visit("session_bytes_most", result.session_bytes_most);
  visit("bandwidths", result.bandwidths);
  visit("nics", result.nics);
  visit("injected", result.injected);
  visit("path_changes", result.path_changes);
  visit("path_changes_left_out", result.path_changes_left_out);
  visit("life", result.life);
  visit("recoveries", result.recoveries);
  visit("messages_sent_before", result.messages_sent_before);
  visit("messages_received_before", result.messages_received_before);
  visit("begun_ns", result.begun_ns);
  visit("setup_ns", result.setup_ns);
  visit("communication_ns", result.communication_ns);
  visit("check_ns", result.check_ns);
  visit("peak_memory_bytes", result.peak_memory_bytes);
}

struct Write {
  json& target;
  template <typename Value>
  void operator()(const char* name, const Value& value) const {
    target[name] = value;
  }
};

struct Read {
  const json& source;
  template <typename Value>
  void operator()(const char* name, Value& value) const {
    source.at(name).get_to(value);
  }
};

PathState path_state(const std::string& name) {
  for (const PathState state :
       {PathState::up, PathState::suspect, PathState::down, PathState::probing}) {
    if (to_string(state) == name) return state;
  }
  return PathState::down;
}

constexpr std::array<std::string_view, 6> kChangeNames{"down",      "up",     "driver_down",
                                                       "driver_up", "blamed", "cleared"};

json stall_json(const Stall& stall) {
  return {{"ns", stall.ns}, {"away_ns", stall.away_ns}, {"at", stall.at}};
}

json failure_json(const RankFailure& failure) {
  json out{
      {"code", static_cast<int>(failure.code)}, {"status", failure.status}, {"text", failure.text}};
  if (failure.peer) out["peer"] = *failure.peer;
  return out;
}

RankFailure failure_from(const json& in) {
  RankFailure failure;
  failure.code = static_cast<ExitCode>(in.at("code").get<int>());
  failure.status = in.at("status").get<std::string>();
  failure.text = in.at("text").get<std::string>();
  if (in.contains("peer")) failure.peer = in.at("peer").get<std::uint32_t>();
  return failure;
}

// `times` are those of the result that its own line carries.
json result_json(const RankResult& result, std::span<const std::uint64_t> times) {
  json out;
  visit_result(result, Write{out});
  out["task_ns"] = times;
  out["stalls"] = json::array();
  for (const Stall& stall : result.stalls) out["stalls"].push_back(stall_json(stall));
  if (result.failure) out["failure"] = failure_json(*result.failure);
  return out;
}

}  // namespace

void to_json(json& out, const NicSample& sample) {
  visit_nic(sample, Write{out});
  out["state"] = std::string(to_string(sample.state));
}

void from_json(const json& in, NicSample& sample) {
  visit_nic(sample, Read{in});
  sample.state = path_state(in.at("state").get<std::string>());
}

void to_json(json& out, const Injected& fault) {
  out = {{"index", fault.index}, {"at_ns", fault.at_ns}};
}

void from_json(const json& in, Injected& fault) { fault = {in.at("index"), in.at("at_ns")}; }

void to_json(json& out, const Recovery& recovery) {
  out = {{"peer", recovery.peer},
         {"status", recovery.status},
         {"point", recovery.point},
         {"took_ns", recovery.took_ns}};
}

void from_json(const json& in, Recovery& recovery) {
  in.at("peer").get_to(recovery.peer);
  in.at("status").get_to(recovery.status);
  in.at("point").get_to(recovery.point);
  in.at("took_ns").get_to(recovery.took_ns);
}

// A short form, as there are many.
void to_json(json& out, const PathChange& change) {
  out = json::array({std::string(kChangeNames[static_cast<std::size_t>(change.kind)]), change.at_ns,
                     change.nic, change.peer, change.remote_nic, static_cast<int>(change.blame)});
}

void from_json(const json& in, PathChange& change) {
  const auto name =
      std::find(kChangeNames.begin(), kChangeNames.end(), in.at(0).get<std::string>());
  if (name == kChangeNames.end()) throw json::other_error::create(501, "a change of paths", &in);
  change.kind = static_cast<PathChange::Kind>(name - kChangeNames.begin());
  in.at(1).get_to(change.at_ns);
  in.at(2).get_to(change.nic);
  in.at(3).get_to(change.peer);
  in.at(4).get_to(change.remote_nic);
  const auto blame = in.at(5).get<std::uint8_t>();
  if (blame > static_cast<std::uint8_t>(Blame::link)) {
    throw json::other_error::create(501, "a verdict", &in);
  }
  change.blame = static_cast<Blame>(blame);
}

void to_json(json& out, const RankResult& result) { out = result_json(result, result.task_ns); }

void from_json(const json& in, RankResult& result) {
  visit_result(result, Read{in});
  in.at("task_ns").get_to(result.task_ns);
  for (std::size_t i = 0; i < result.stalls.size(); ++i) {
    const json& stall = in.at("stalls").at(i);
    result.stalls[i] = {stall.at("ns"), stall.at("away_ns"), stall.at("at")};
  }
  if (in.contains("failure")) result.failure = failure_from(in.at("failure"));
}

std::string to_lines(const RankMessage& message) {
  std::string lines;
  json out = json::object();
  if (message.progress) {
    out["progress"] = {{"done", message.progress->done}, {"nics", message.progress->nics}};
  }
  if (message.note) out["note"] = *message.note;
  if (message.result) {
    std::span<const std::uint64_t> times = message.result->task_ns;
    for (; times.size() > kTimesPerLine; times = times.subspan(kTimesPerLine)) {
      lines += json_text({{"task_ns", times.first(kTimesPerLine)}}) + "\n";
    }
    out["result"] = result_json(*message.result, times);
  }
  if (message.attack) out["attack"] = *message.attack;
  return lines + json_text(out) + "\n";
}

std::optional<RankMessage> from_line(const std::string& line) {
  try {
    const json in = json::parse(line);
    RankMessage message;
    if (in.contains("progress")) {
      const json& progress = in.at("progress");
      message.progress = Progress{progress.at("done"), progress.at("nics")};
    }
    if (in.contains("note")) message.note = in.at("note").get<std::string>();
    if (in.contains("result")) message.result = in.at("result").get<RankResult>();
    if (in.contains("attack")) message.attack = in.at("attack").get<AttackResult>();
    if (in.contains("task_ns")) in.at("task_ns").get_to(message.task_ns);
    if (!message.progress && !message.note && !message.result && !message.attack &&
        message.task_ns.empty()) {
      return std::nullopt;
    }
    return message;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

std::optional<RankMessage> MessageReader::read(const std::string& line) {
  std::optional<RankMessage> message = from_line(line);
  if (!message) return std::nullopt;
  if (!message->task_ns.empty()) {
    task_ns_.insert(task_ns_.end(), message->task_ns.begin(), message->task_ns.end());
    return std::nullopt;
  }
  if (message->result) {
    std::vector<std::uint64_t>& times = message->result->task_ns;
    task_ns_.insert(task_ns_.end(), times.begin(), times.end());
    times = std::exchange(task_ns_, {});
  }
  return message;
}

}  // namespace hawser::tool
