// SPDX-License-Identifier: Apache-2.0
// The trace of a small exchange over bad NICs is complete and consistent. Its counts are those of
// EndpointStats, and every packet in it ends.
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "test/protocol/exchange.hpp"
#include "test/protocol/one_sided_scene.hpp"

namespace hawser::test {
namespace {

using proto::milliseconds;
using Kind = TraceKind;

using Count = std::map<std::pair<Kind, std::uint8_t>, std::uint64_t>;

struct Counts {
  explicit Counts(const std::vector<TraceRecord>& trace) {
    for (const TraceRecord& record : trace) {
      ++by_cause[{record.kind, record.cause}];
      ++by_kind[record.kind];
      // Lost probes of paths are in the trace, but don't count as lost data.
      if (record.kind == Kind::packet_lost && record.fragment != kNoTraceIndex)
        ++lost[record.cause];
      if (record.kind == Kind::packet_late && record.fragment != kNoTraceIndex)
        late += 1u + record.more;
    }
  }
  Count by_cause;
  std::map<Kind, std::uint64_t> by_kind;
  std::map<std::uint8_t, std::uint64_t> lost;
  std::uint64_t late = 0;
};

// `one_sided`: that many one-sided operations and replies are among the sends.
void check_against_stats(const std::vector<TraceRecord>& trace, const EndpointStats& stats,
                         std::uint64_t one_sided = 0) {
  Counts counts(trace);
  auto& kinds = counts.by_kind;
  CHECK(kinds[Kind::packet_sent] + kinds[Kind::packet_retransmitted] == stats.data_packets_sent);
  CHECK(kinds[Kind::packet_retransmitted] == stats.fragments_retransmitted);
  CHECK(kinds[Kind::packet_received] == stats.data_packets_received);
  CHECK(counts.lost[1] == stats.lost_by_gap);
  CHECK(counts.lost[2] == stats.lost_by_request);
  CHECK(counts.lost[3] == stats.lost_by_evacuation);
  CHECK(counts.lost[1] + counts.lost[2] + counts.lost[3] == stats.packets_lost);
  CHECK(kinds[Kind::request_sent] == stats.requests_sent);
  CHECK(kinds[Kind::request_received] == stats.requests_received);
  CHECK(kinds[Kind::pto] == stats.ptos);
  CHECK(kinds[Kind::path_probe] == stats.path_probes_sent);
  CHECK(kinds[Kind::message_probe] == stats.message_probes_sent);
  for (std::size_t i = 0; i < kDropReasons; ++i) {
    INFO(kDropReasonTexts[i].name);
    CHECK(counts.by_cause[{Kind::packet_dropped, static_cast<std::uint8_t>(i)}] == stats.drops[i]);
  }
  const auto count_if = [&](auto&& is) {
    return static_cast<std::uint64_t>(std::count_if(trace.begin(), trace.end(), is));
  };
  CHECK(count_if([](const TraceRecord& record) {
          return record.kind == Kind::session_state &&
                 record.detail == static_cast<std::uint32_t>(TraceSession::ready);
        }) == stats.sessions_established);
  // A path that fails while it is PROBING has not returned.
  std::map<std::pair<std::uint8_t, std::uint8_t>, PathState> states;
  CHECK(count_if([&](const TraceRecord& record) {
          if (record.kind != Kind::path_state) return false;
          PathState& state = states[{record.slot, record.generation}];
          const PathState before = std::exchange(state, static_cast<PathState>(record.detail));
          return state == PathState::down && before != PathState::probing;
        }) == stats.paths_down);
  CHECK(counts.by_cause[{Kind::send_completed, 0}] == stats.messages_sent + one_sided);
  CHECK(counts.by_cause[{Kind::receive_completed, 0}] == stats.messages_received);
  CHECK(counts.late >= stats.spurious_retransmits);
}

using Packet = std::tuple<std::uint32_t, std::uint8_t, std::uint8_t, std::uint64_t>;
Packet packet_of(const TraceRecord& record) {
  return {record.peer, record.slot, record.generation, record.path_number};
}

// Each packet that left with a number is acknowledged or lost, once, and only then late. Each loss
// has its cause. A retransmitted fragment had been lost before, or the receiver had requested it.
// One-sided operations ask for their status by a fragment, too.
void check_packets(const std::vector<TraceRecord>& trace, bool is_one_sided = false) {
  enum class State { in_flight, acknowledged, lost };
  std::map<Packet, State> packets;
  std::set<std::pair<std::uint64_t, std::uint32_t>> lost_fragments;
  std::set<std::pair<std::uint64_t, std::uint32_t>> sent_fragments;
  std::set<std::uint64_t> requested;
  std::uint64_t time = 0;
  for (const TraceRecord& record : trace) {
    CHECK(record.time_ns >= time);
    time = record.time_ns;
    const std::pair fragment{record.message, record.fragment};
    switch (record.kind) {
      case Kind::request_received: requested.insert(record.message); break;
      case Kind::message_probe:
        if (is_one_sided) requested.insert(record.message);
        break;
      case Kind::packet_retransmitted:
        CHECK((lost_fragments.contains(fragment) || requested.contains(record.message)));
        [[fallthrough]];
      case Kind::packet_sent:
        for (std::uint64_t i = 0; record.kind == Kind::packet_sent && i <= record.more; ++i) {
          CHECK(sent_fragments.emplace(record.message + i, record.fragment).second);
        }
        [[fallthrough]];
      case Kind::path_probe:
        CHECK(packets.emplace(packet_of(record), State::in_flight).second);
        break;
      case Kind::packet_acknowledged:
        REQUIRE(packets.contains(packet_of(record)));
        CHECK(packets[packet_of(record)] == State::in_flight);
        packets[packet_of(record)] = State::acknowledged;
        break;
      case Kind::packet_lost:
        REQUIRE(packets.contains(packet_of(record)));
        CHECK(packets[packet_of(record)] == State::in_flight);
        CHECK_FALSE(trace_cause_name(record.kind, record.cause).empty());
        packets[packet_of(record)] = State::lost;
        for (std::uint64_t i = 0; i <= record.more; ++i) {
          lost_fragments.emplace(record.message + i, record.fragment);
        }
        break;
      case Kind::packet_late:
        REQUIRE(packets.contains(packet_of(record)));
        CHECK(packets[packet_of(record)] == State::lost);
        packets[packet_of(record)] = State::acknowledged;
        break;
      default: break;
    }
  }
  for (const auto& [packet, state] : packets) CHECK(state != State::in_flight);
}

// Each message that was begun completed once, after its final status. A fetch may end with its
// reply instead.
void check_messages(const std::vector<TraceRecord>& trace, std::size_t sends,
                    std::size_t fetches = 0) {
  std::size_t by_reply = 0;
  std::map<std::uint64_t, int> stage;
  for (const TraceRecord& record : trace) {
    if (record.kind == Kind::message_begun) CHECK(stage.emplace(record.message, 0).second);
    if (record.kind == Kind::message_status) {
      REQUIRE(stage.contains(record.message));
      CHECK(stage[record.message] < 2);
      stage[record.message] = 1;
    }
    if (record.kind == Kind::send_completed) {
      REQUIRE(stage.contains(record.message));
      CHECK(stage[record.message] < 2);
      by_reply += stage[record.message] == 0;
      stage[record.message] = 2;
    }
  }
  CHECK(stage.size() == sends);
  CHECK(by_reply <= fetches);
  for (const auto& [number, reached] : stage) CHECK(reached == 2);
}

WorldConfig lossy_and_traced(std::uint64_t seed) {
  WorldConfig config;
  config.nics = 2;
  config.seed = seed;
  config.trace = true;
  config.faults = "delay=20us/30us,loss=0.05,duplicate=0.02,corrupt=0.01";
  return config;
}

TEST_CASE("trace__of_a_lossy_exchange_is_complete_and_agrees_with_the_counters") {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    INFO("seed " << seed);
    World world(lossy_and_traced(seed));
    world.connect_all();
    Exchange exchange(world);
    for (std::uint64_t i = 0; i < 40; ++i) {
      (void)exchange.receive(1, 0, i, 60000);
      (void)exchange.send(0, 1, i, i % 4 == 0 ? 300 : 60000);
      (void)exchange.send(1, 0, i, i % 3 == 0 ? 300000 : 100);
    }
    world.run_for(milliseconds(2));
    for (std::uint64_t i = 0; i < 40; ++i) (void)exchange.receive(0, 1, i, 300000);
    REQUIRE(exchange.run(milliseconds(2000)));
    world.run_for(milliseconds(200));  // for packets still in flight
    for (std::uint32_t node = 0; node < 2; ++node) {
      INFO("node " << node);
      const auto& trace = world.trace(node);
      check_against_stats(trace, world.stats(node));
      check_packets(trace);
      check_messages(trace, 40);
      CHECK(world.stats(node).packets_lost > 0);
    }
    Counts counts(world.trace(0));
    CHECK(counts.by_kind[Kind::grant_given] > 0);  // for messages that came before their receive
    CHECK(Counts(world.trace(1)).by_kind[Kind::grant_received] > 0);
  }
}

TEST_CASE("trace__of_one_sided_operations_is_complete_and_agrees_with_the_counters") {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    INFO("seed " << seed);
    OneSidedScene at(lossy_and_traced(seed));
    const std::string sent = pattern(seed, 30000);
    std::string got(30000, 'x');
    constexpr std::size_t kEach = 20;
    std::vector<OperationId> posted;
    for (std::size_t i = 0; i < kEach; ++i) {
      posted.push_back(at.post(0, at.write_to(0, 1, 0, sent)));
      posted.push_back(at.post(0, at.read_from(0, 1, 0, got)));
      posted.push_back(at.post(0, at.add_at(0, 1, 60000, 1)));
    }
    for (const OperationId operation : posted) REQUIRE(at.wait(0, operation).status == Status::ok);
    at.world.run_for(milliseconds(200));  // for packets still in flight
    for (std::uint32_t node = 0; node < 2; ++node) {
      INFO("node " << node);
      // The owner's messages are the replies of reads and of atomics that fetch.
      const std::size_t sends = node == 0 ? posted.size() : 2 * kEach;
      check_against_stats(at.world.trace(node), at.world.stats(node), sends);
      check_packets(at.world.trace(node), true);
      check_messages(at.world.trace(node), sends, node == 0 ? 2 * kEach : 0);
      CHECK(at.world.stats(node).packets_lost > 0);
    }
  }
}

TEST_CASE("trace__of_a_dying_nic_tells_how_its_paths_went") {
  WorldConfig config;
  config.nics = 3;
  config.trace = true;
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  const auto talk = [&](std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t i = from; i < to; ++i) {
      exchange.message(0, 1, i, 100000);
      world.run_for(milliseconds(1));
    }
  };
  talk(0, 20);
  world.apply(0, 1, "kill");
  talk(20, 100);
  REQUIRE(exchange.run(milliseconds(500)));
  const auto& trace = world.trace(0);
  check_against_stats(trace, world.stats(0));
  std::vector<std::uint32_t> states;
  for (const TraceRecord& record : trace) {
    if (record.kind != Kind::path_state || record.nic != 1 || record.remote_nic != 1) continue;
    states.push_back(record.detail);
    CHECK_FALSE(trace_cause_name(record.kind, record.cause).empty());
  }
  REQUIRE(states.size() >= 2);  // the path may be probed once more
  CHECK(states[0] == static_cast<std::uint32_t>(PathState::suspect));
  CHECK(states[1] == static_cast<std::uint32_t>(PathState::down));
}

TEST_CASE("trace__a_session_from_its_first_word_to_its_failure") {
  WorldConfig config;
  config.trace = true;
  config.tunables.peer_timeout_ms = 200;
  World world(config);
  Exchange exchange(world);
  exchange.message(0, 1, 1, 100);
  REQUIRE(exchange.run(milliseconds(100)));
  world.crash(1, false);
  std::string buffer(10, 'x');
  (void)world.send(0, 1, 2, buffer);
  world.run_for(milliseconds(1000));
  std::vector<std::uint32_t> states;
  std::uint8_t cause = 0;
  for (const TraceRecord& record : world.trace(0)) {
    if (record.kind != Kind::session_state) continue;
    if (record.detail != static_cast<std::uint32_t>(TraceSession::answered)) {
      states.push_back(record.detail);  // if both call at once, they answer each other
    }
    cause = record.cause;
  }
  CHECK(states == std::vector<std::uint32_t>{static_cast<std::uint32_t>(TraceSession::calling),
                                             static_cast<std::uint32_t>(TraceSession::ready),
                                             static_cast<std::uint32_t>(TraceSession::failed)});
  CHECK(cause == static_cast<std::uint8_t>(Status::peer_timeout));
  check_against_stats(world.trace(0), world.stats(0));
}

}  // namespace
}  // namespace hawser::test
