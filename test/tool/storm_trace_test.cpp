// SPDX-License-Identifier: Apache-2.0
// The timeline and the trace of a recorded storm are complete, in order, and in the format that
// Perfetto reads (the Trace Event Format).
#include "tool/storm/trace.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "proto/base/assert.hpp"
#include "tool/error.hpp"

namespace hawser::tool {
namespace {

using Json = nlohmann::json;

struct Traced {
  ApartOutcome outcome;
  std::vector<std::string> lines;
  Json json;
};

Traced trace(const sim::Plan& plan, TraceOptions options,
             const Storm& storm = make_storm(sim::kCensusCells)) {
  options.prefix = "storm_trace_test." + std::to_string(::getpid());
  Traced traced;
  trace_storm(
      plan, storm, 60, [] { return false; }, options,
      [&](const ApartOutcome& outcome) { traced.outcome = outcome; });
  std::ifstream text(options.prefix + ".txt");
  for (std::string line; std::getline(text, line);) traced.lines.push_back(line);
  std::ifstream json(options.prefix + ".json");
  traced.json = Json::parse(json);
  for (const char* const ending : {".txt", ".json"}) {
    (void)std::remove((options.prefix + ending).c_str());
  }
  return traced;
}

// Checks what Perfetto's importer and the format's document demand of each kind of event.
void check_format(const Json& json) {
  REQUIRE(json.at("displayTimeUnit") == "ns");
  REQUIRE(json.at("traceEvents").is_array());
  std::set<int> named_processes;
  std::set<std::pair<int, int>> named_threads;
  std::map<std::tuple<int, std::string, std::string>, std::pair<std::string, double>> open;
  std::set<std::string> used_ids;
  double last = 0;
  for (const Json& event : json["traceEvents"]) {
    CAPTURE(event.dump());
    const auto kind = event.at("ph").get<std::string>();
    const int process = event.at("pid").get<int>();
    const int thread = event.at("tid").get<int>();
    const double at = event.at("ts").get<double>();
    CHECK(event.at("name").is_string());
    if (kind == "M") {
      CHECK(event.at("args").is_object());
      if (event["name"] == "process_name") named_processes.insert(process);
      if (event["name"] == "thread_name") named_threads.emplace(process, thread);
      continue;
    }
    CHECK(named_processes.contains(process));
    CHECK(at >= last);
    last = at;
    if (kind == "i") {
      CHECK(named_threads.contains({process, thread}));
      CHECK((event.at("s") == "t" || event.at("s") == "p" || event.at("s") == "g"));
    } else if (kind == "C") {
      CHECK_FALSE(event.at("args").empty());
      for (const auto& [name, value] : event["args"].items())
        CHECK(value.is_number_unsigned() != value.is_number_float());
    } else if (kind == "b" || kind == "e") {
      CHECK(named_threads.contains({process, thread}));
      const std::tuple key{process, event.at("cat").get<std::string>(),
                           event.at("id").get<std::string>()};
      if (kind == "b") {
        CHECK(used_ids.insert(std::get<2>(key)).second);
        CHECK(open.emplace(key, std::pair(event["name"].get<std::string>(), at)).second);
      } else {
        REQUIRE(open.contains(key));
        CHECK(open[key].first == event["name"]);
        CHECK(open[key].second <= at);
        open.erase(key);
      }
    } else {
      FAIL("an event of kind " << kind);
    }
  }
  CHECK(open.empty());
}

std::size_t count(const Traced& traced, std::string_view text) {
  std::size_t n = 0;
  for (const std::string& line : traced.lines) n += line.find(text) != std::string::npos;
  return n;
}

std::size_t spans(const Traced& traced, std::string_view category) {
  std::size_t n = 0;
  for (const Json& event : traced.json["traceEvents"]) {
    n += event["ph"] == "b" && event["cat"] == category;
  }
  return n;
}

TEST_CASE("storm_trace__of_many_seeds_is_well_formed_and_tells_all", "[long]") {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const sim::Plan plan = sim::draw_plan(seed);
    const Traced traced = trace(plan, {.packets = seed % 2 == 0});
    CAPTURE(seed);
    CHECK(traced.outcome.ended);
    check_format(traced.json);
    std::size_t begun = 0;
    for (const std::uint32_t n : traced.outcome.faults) begun += n;
    CHECK(count(traced, " begins: ") == begun);
    CHECK(count(traced, " ends: ") == begun);
    CHECK(count(traced, "ALL IS HEALED") == 1);
    CHECK(spans(traced, "fault") == begun);
    CHECK(spans(traced, "message") == count(traced, "posts message "));
    CHECK(spans(traced, "receive") == count(traced, "posts receive "));
    CHECK(spans(traced, "message") > 0);
    CHECK(traced.lines.back() == "verdict: nothing is wrong");
    REQUIRE(traced.lines.size() > 4);
    CHECK(traced.lines[traced.lines.size() - 4].ends_with(" ms  THE JUDGE: nothing is wrong"));
    // The events are in the order of time.
    double last = 0;
    bool in_plan = true;
    for (const std::string& line : traced.lines) {
      if (line.empty() || line.find(" ms  ") == std::string::npos) continue;
      in_plan &= line.find("all is healed") == std::string::npos;
      if (in_plan || line.find("all is healed") != std::string::npos) continue;
      const double at = std::stod(line);
      CHECK(at >= last);
      last = at;
    }
    CHECK_FALSE(in_plan);
  }
}

TEST_CASE("storm_trace__packets_and_a_part_of_the_time") {
  const sim::Plan plan = sim::draw_plan(5);
  const Traced events = trace(plan, {});
  const Traced packets = trace(plan, {.packets = true});
  CHECK(count(events, "packet_sent") == 0);
  CHECK(count(packets, "packet_sent") > 100);
  CHECK(count(packets, "packet_received") > 100);
  CHECK(count(packets, "posts message ") == count(events, "posts message "));
  const Traced part = trace(plan, {.packets = true, .from_ms = 10, .to_ms = 20});
  check_format(part.json);
  CHECK(part.lines.size() < packets.lines.size());
  bool some = false;
  for (const Json& event : part.json["traceEvents"]) {
    if (event["ph"] == "M") continue;
    some = true;
    CHECK(event["ts"] >= 10000);
    CHECK(event["ts"] <= 20000);
  }
  CHECK(some);
}

// The recording survives the process that made it.
TEST_CASE("storm_trace__of_a_storm_that_crashes_tells_what_was_before") {
  const sim::Plan plan = sim::draw_plan(5);
  const Storm crash = [](const sim::Plan& some, sim::Recording* recording) {
    (void)sim::run_storm(some, recording);
    HAWSER_ASSERT(some.seed == 0, "to be told of");
    return sim::StormOutcome{};
  };
  const Traced traced = trace(plan, {}, crash);
  CHECK_FALSE(traced.outcome.ended);
  CHECK(traced.outcome.verdict.find("to be told of") != std::string::npos);
  check_format(traced.json);
  CHECK(count(traced, "posts message ") > 10);
  CHECK(traced.lines.back() == "verdict: " + traced.outcome.verdict);
}

TEST_CASE("storm_trace__where_it_can_not_be_written") {
  TraceOptions options;
  options.prefix = "/nonexistent/x";
  const auto never = [] { return false; };
  const auto ended = [](const ApartOutcome&) { FAIL("it ran"); };
  CHECK_THROWS_AS(
      trace_storm(sim::draw_plan(5), make_storm(sim::kCensusCells), 60, never, options, ended),
      InputError);
}

}  // namespace
}  // namespace hawser::tool
