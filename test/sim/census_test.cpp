// SPDX-License-Identifier: Apache-2.0
// The census: each cell has its name, and counts what the name says.
#include "sim/storm/census.hpp"

#include <catch2/catch.hpp>
#include <memory>
#include <set>
#include <vector>

#include "sim/storm/storm.hpp"

namespace hawser::test {
namespace {

using sim::Census;
using sim::CensusGroup;

std::uint64_t count(const Census& census, std::string_view name) {
  const std::size_t cell = sim::find_census_cell(name);
  REQUIRE(cell < sim::kCensusCells);
  return census.counts[cell];
}

TEST_CASE("census__names_are_unique_and_found_again") {
  std::set<std::string> names;
  std::size_t expected = 0;
  for (std::size_t cell = 0; cell < sim::kCensusCells; ++cell) {
    const sim::CensusRow& row = sim::census_rows()[cell];
    if (row.name.empty()) {
      CHECK_FALSE(row.expected);
      continue;
    }
    expected += row.expected;
    CHECK(names.insert(sim::census_cell_name(cell)).second);
    CHECK(sim::find_census_cell(sim::census_cell_name(cell)) == cell);
  }
  CHECK(expected > 100);
  CHECK(sim::find_census_cell("nothing:at_all") == sim::kCensusCells);
  CHECK(sim::find_census_cell("") == sim::kCensusCells);
}

TraceRecord session(std::uint32_t peer, TraceSession to, Status why = Status::ok) {
  TraceRecord record;
  record.kind = TraceKind::session_state;
  record.peer = peer;
  record.detail = static_cast<std::uint32_t>(to);
  record.cause = static_cast<std::uint8_t>(why);
  return record;
}

TraceRecord path(std::uint32_t peer, std::uint8_t slot, std::uint8_t generation, PathState to,
                 Reason why) {
  TraceRecord record;
  record.kind = TraceKind::path_state;
  record.peer = peer;
  record.slot = slot;
  record.generation = generation;
  record.detail = static_cast<std::uint32_t>(to);
  record.cause = static_cast<std::uint8_t>(why);
  return record;
}

TEST_CASE("census__sessions_and_paths_remember_where_they_came_from") {
  Census census;
  const auto taker = std::make_unique<sim::CensusTaker>(census);
  taker->on_trace(session(0, TraceSession::calling));
  taker->on_trace(session(1, TraceSession::answered));
  taker->on_trace(session(0, TraceSession::ready));
  taker->on_trace(path(0, 3, 1, PathState::suspect, Reason::silence));
  taker->on_trace(path(0, 3, 1, PathState::down, Reason::unanswered));
  taker->on_trace(path(0, 4, 1, PathState::down, Reason::driver));
  taker->on_trace(path(0, 3, 2, PathState::down, Reason::moved));  // another path in its place
  taker->on_trace(session(0, TraceSession::failed, Status::peer_timeout));
  taker->on_trace(path(0, 4, 1, PathState::up, Reason::proven));  // of another session
  CHECK(count(census, "session_change:idle->calling") == 1);
  CHECK(count(census, "session_change:idle->answered") == 1);
  CHECK(count(census, "session_change:calling->ready") == 1);
  CHECK(count(census, "session_change:ready->failed") == 1);
  CHECK(count(census, "session_end:peer_timeout") == 1);
  CHECK(count(census, "session_state:calling") == 1);
  CHECK(count(census, "path_change:new->SUSPECT:silence") == 1);
  CHECK(count(census, "path_change:SUSPECT->DOWN:unanswered") == 1);
  CHECK(count(census, "path_change:new->DOWN:driver") == 1);
  CHECK(count(census, "path_change:new->DOWN:moved") == 1);
  CHECK(count(census, "path_change:new->UP:proven") == 1);
  CHECK(count(census, "path_state:DOWN") == 3);
  CHECK(count(census, "trace_kind:path_state") == 5);
  taker->restart();
  taker->on_trace(session(0, TraceSession::calling));
  CHECK(count(census, "session_change:idle->calling") == 2);
}

TEST_CASE("census__values_out_of_every_range_are_harmless") {
  Census census;
  const auto taker = std::make_unique<sim::CensusTaker>(census);
  TraceRecord record;
  for (std::size_t kind = 0; kind < kTraceKinds; ++kind) {
    record.kind = static_cast<TraceKind>(kind);
    record.cause = 255;
    record.detail = ~0u;
    taker->on_trace(record);
  }
  CHECK(count(census, "trace_kind:packet_sent") == 1);
  CHECK(count(census, "trace_kind:receive_completed") == 1);
}

// A census agrees with what the outcome shows by other means.
TEST_CASE("census__of_real_storms_agrees_with_what_else_is_known") {
  std::vector<std::uint64_t> seen(sim::kCensusCells, 0);
  int with_sessions = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const sim::Plan plan = sim::draw_plan(seed);
    const sim::StormOutcome outcome = sim::run_storm(plan);
    CAPTURE(seed);
    REQUIRE(outcome.verdict == "");
    const Census& census = outcome.census;
    CHECK(count(census, "trace_kind:packet_lost") == count(census, "loss:gap") +
                                                         count(census, "loss:request") +
                                                         count(census, "loss:evacuation"));
    // If any packet was sent, there was a session.
    const bool any_sent = count(census, "trace_kind:packet_sent") > 0;
    CHECK((count(census, "session_state:ready") >= 1 || !any_sent));
    with_sessions += any_sent ? 1 : 0;
    CHECK(count(census, "trace_kind:message_begun") <= plan.messages.size());
    CHECK(count(census, "trace_kind:packet_sent") < outcome.frames);
    for (std::size_t cell = 0; cell < sim::kCensusCells; ++cell) {
      seen[cell] += census.counts[cell];
      if (census.counts[cell] > 0) CHECK_FALSE(sim::census_rows()[cell].name.empty());
    }
  }
  CHECK(with_sessions >= 18);
  for (const char* name : {"path_state:DOWN", "path_state:PROBING", "loss:gap", "event:nic_down",
                           "send_completion:ok", "receive_completion:ok", "drop:bad_checksum",
                           "reason:driver", "message_status:delivered"}) {
    CAPTURE(name);
    CHECK(seen[sim::find_census_cell(name)] > 0);
  }
}

// A recording shows the same run, and changes nothing.
TEST_CASE("recording__keeps_the_last_and_changes_nothing") {
  const sim::Plan plan = sim::draw_plan(5);
  const sim::StormOutcome plain = sim::run_storm(plan);
  std::vector<sim::Happening> all(1 << 20);
  std::uint64_t count_all = 0;
  sim::Recording recording(all, count_all);
  const sim::StormOutcome recorded = sim::run_storm(plan, &recording);
  CHECK(recorded.digest == plain.digest);
  CHECK(recorded.census.counts == plain.census.counts);
  REQUIRE(recording.lost() == 0);
  std::uint64_t traced = 0, posted = 0, heals = 0, begins = 0;
  for (std::uint64_t i = 0; i < recording.size(); ++i) {
    const sim::Happening& one = recording.at(i);
    if (i > 0) CHECK(one.at >= recording.at(i - 1).at);
    traced += one.kind == sim::Happening::Kind::traced;
    posted += one.kind == sim::Happening::Kind::posted_send;
    heals += one.kind == sim::Happening::Kind::heals;
    begins += one.kind == sim::Happening::Kind::fault_begins;
  }
  std::uint64_t records = 0;
  for (std::size_t kind = 0; kind < kTraceKinds; ++kind) {
    records += plain.census.at(CensusGroup::trace_kind, kind);
  }
  CHECK(traced == records);
  CHECK(posted == plain.census.at(CensusGroup::trace_kind,
                                  static_cast<std::size_t>(TraceKind::message_begun)));
  CHECK(heals == 1);
  std::uint64_t faults = 0;
  for (const std::uint32_t n : plain.faults) faults += n;
  CHECK(begins == faults);

  std::vector<sim::Happening> few(100);
  std::uint64_t count_few = 0;
  sim::Recording ring(few, count_few);
  (void)sim::run_storm(plan, &ring);
  CHECK(count_few == count_all);
  REQUIRE(ring.size() == 100);
  for (std::uint64_t i = 0; i < 100; ++i) {
    CHECK(ring.at(i).at == recording.at(recording.size() - 100 + i).at);
    CHECK(ring.at(i).kind == recording.at(recording.size() - 100 + i).kind);
  }
}

}  // namespace
}  // namespace hawser::test
