// SPDX-License-Identifier: Apache-2.0
// Faults of NICs and links, and which part gets the blame. There is one verdict for each fault, at
// each end that can know it. There is none without a fault, and it is withdrawn when the fault is
// over.
#include <catch2/catch.hpp>
#include <cstring>

#include "proto/wire/layout.hpp"
#include "test/protocol/exchange.hpp"

namespace hawser::test {
namespace {

using proto::Duration;
using proto::microseconds;
using proto::milliseconds;
using proto::Time;

WorldConfig three_nics(std::uint32_t nodes = 2) {
  WorldConfig config;
  config.nodes = nodes;
  config.nics = 3;
  config.faults = "delay=20us";
  return config;
}

// Each node sends messages of a few packets to each other node all the time, so that every living
// path is heard. It has done so for 20 ms when the test begins.
class Chatter {
 public:
  explicit Chatter(World& world, std::size_t bytes = 12000)
      : world_(world), exchange_(world), bytes_(bytes) {
    world.connect_all();
    run_for(milliseconds(20));
  }

  void run_for(Duration time) {
    const Time end = world_.now() + time;
    while (world_.now() < end) {
      say();
      world_.run_for(microseconds(500));
    }
  }
  void finish() {
    REQUIRE(exchange_.run(milliseconds(500)));
    exchange_.check_all_ok();
  }
  void without(std::uint32_t node) { silent_ = node; }

 private:
  void say() {
    exchange_.collect();
    for (std::uint32_t from = 0; from < world_.nodes(); ++from) {
      for (std::uint32_t to = 0; to < world_.nodes(); ++to) {
        if (from == to || from == silent_ || to == silent_) continue;
        (void)exchange_.try_receive(to, from, tag_, bytes_);
        (void)exchange_.try_send(from, to, tag_, bytes_);
      }
    }
    ++tag_;
  }

  World& world_;
  Exchange exchange_;
  std::size_t bytes_;
  std::uint64_t tag_ = 0;
  std::uint32_t silent_ = 0xffffffffu;
};

std::vector<Verdict> verdicts(World& world, std::uint32_t node) {
  std::array<Verdict, 64> standing;
  const std::size_t count = world.endpoint(node).verdicts(standing);
  return {standing.begin(), standing.begin() + static_cast<std::ptrdiff_t>(count)};
}

std::vector<Event> told(World& world, std::uint32_t node, Event::Kind kind) {
  std::vector<Event> found;
  for (const Event& event : world.events(node)) {
    if (event.kind == kind) found.push_back(event);
  }
  return found;
}

std::size_t reached(World& world, std::uint32_t node) {
  return told(world, node, Event::Kind::verdict_reached).size();
}

void require_quiet(World& world) {
  for (std::uint32_t node = 0; node < world.nodes(); ++node) {
    CHECK(reached(world, node) == 0);
    CHECK(verdicts(world, node).empty());
  }
}

// Returns the verdict that stands at the node, which must be the only one ever reported there.
Verdict only_verdict(World& world, std::uint32_t node) {
  const auto standing = verdicts(world, node);
  const auto events = told(world, node, Event::Kind::verdict_reached);
  REQUIRE(standing.size() == 1);
  REQUIRE(events.size() == 1);
  CHECK(events[0].blame == standing[0].blame);
  CHECK(events[0].reason == standing[0].reason);
  CHECK(events[0].nic == standing[0].nic);
  CHECK(events[0].remote_nic == standing[0].remote_nic);
  CHECK(events[0].peer == standing[0].peer);
  CHECK(events[0].endpoint_id == standing[0].endpoint_id);
  CHECK(standing[0].since_ns <= events[0].time_ns);
  return standing[0];
}

void check_local(World& world, std::uint32_t node, std::uint8_t nic, Reason reason) {
  const Verdict verdict = only_verdict(world, node);
  CHECK(verdict.blame == Blame::local_nic);
  CHECK(verdict.reason == reason);
  CHECK(verdict.nic == nic);
  CHECK(verdict.peer == kAnyPeer);
}

void check_remote(World& world, std::uint32_t node, std::uint32_t other, std::uint8_t nic,
                  Reason reason) {
  const Verdict verdict = only_verdict(world, node);
  CHECK(verdict.blame == Blame::remote_nic);
  CHECK(verdict.reason == reason);
  CHECK(verdict.remote_nic == nic);
  CHECK(verdict.peer == world.peer(node, other));
  CHECK(verdict.endpoint_id == other + 1);
}

void check_link(World& world, std::uint32_t node, std::uint32_t other, std::uint8_t nic,
                std::uint8_t remote_nic) {
  const Verdict verdict = only_verdict(world, node);
  CHECK(verdict.blame == Blame::link);
  CHECK(verdict.nic == nic);
  CHECK(verdict.remote_nic == remote_nic);
  CHECK(verdict.peer == world.peer(node, other));
}

void check_withdrawn(World& world, std::uint32_t node, Reason reason) {
  CHECK(verdicts(world, node).empty());
  const auto events = told(world, node, Event::Kind::verdict_withdrawn);
  REQUIRE(events.size() == 1);
  CHECK(events[0].reason == reason);
  CHECK(reached(world, node) == 1);
}

// Drops all packets between NIC `nic` of node 0 and NIC `nic` of node 1, both ways, while `dead`.
WorldConfig dead_link(WorldConfig config, std::uint32_t nic, const bool& dead) {
  config.hook = [nic, &dead](std::uint32_t, std::uint32_t at,
                             const engine::FaultPacket& packet) -> std::optional<engine::Fate> {
    if (!dead || packet.direction != engine::Direction::rx || at != nic) return std::nullopt;
    proto::wire::CommonHeader header;
    if (packet.header.size() < sizeof header) return std::nullopt;
    std::memcpy(&header, packet.header.data(), sizeof header);
    if (header.slot >> 4 != nic) return std::nullopt;
    return engine::Fate{.drop = true};
  };
  return config;
}

TEST_CASE("verdicts__none_without_a_fault") {
  WorldConfig config = three_nics(3);
  config.faults = "delay=20us/200us,loss=0.02,reorder=0.02";
  World world(config);
  Chatter chatter(world);
  for (int i = 0; i < 4; ++i) {
    chatter.run_for(milliseconds(150));
    world.pause(1, true);  // a busy host
    chatter.run_for(milliseconds(i % 2 == 0 ? 5 : 60));
    world.pause(1, false);
  }
  chatter.run_for(milliseconds(150));
  require_quiet(world);
}

TEST_CASE("verdicts__a_dead_nic_is_a_row_to_its_host_and_a_column_to_the_others", "[V1]") {
  World world(three_nics(3));
  Chatter chatter(world);
  world.apply(0, 1, "kill");
  const Time died = world.now();
  chatter.run_for(milliseconds(400));
  check_local(world, 0, 1, Reason::witnesses);
  CHECK(only_verdict(world, 0).since_ns > static_cast<std::uint64_t>(died.ns));
  check_remote(world, 1, 0, 1, Reason::witnesses);
  check_remote(world, 2, 0, 1, Reason::witnesses);
  world.apply(0, 1, "revive");
  chatter.run_for(milliseconds(1500));
  for (std::uint32_t node = 0; node < 3; ++node) check_withdrawn(world, node, Reason::works_again);
  // The same fault once more.
  world.apply(0, 1, "kill");
  chatter.run_for(milliseconds(400));
  for (std::uint32_t node = 0; node < 3; ++node) CHECK(reached(world, node) == 2);
  chatter.finish();
}

// An absent host answers nothing. Probes during that time are no witnesses against its NICs, nor
// against those of the prober.
TEST_CASE("verdicts__a_host_that_is_away_beside_a_dead_nic_blames_no_other", "[V5]") {
  for (const std::uint32_t away : {0u, 1u}) {
    for (const std::int64_t ms : {250, 700}) {
      for (const bool dies_meanwhile : {false, true}) {
        INFO("node " << away << " is away for " << ms << " ms; the NIC dies "
                     << (dies_meanwhile ? "meanwhile" : "before"));
        World world(three_nics());
        Chatter chatter(world, 80000);  // over all paths
        if (!dies_meanwhile) {
          world.apply(0, 1, "kill");
          chatter.run_for(milliseconds(300));
        }
        world.pause(away, true);
        chatter.run_for(milliseconds(ms / 4));
        if (dies_meanwhile) world.apply(0, 1, "kill");
        chatter.run_for(milliseconds(ms - ms / 4));
        world.pause(away, false);
        chatter.run_for(milliseconds(1500));
        check_local(world, 0, 1, Reason::witnesses);
        check_remote(world, 1, 0, 1, Reason::witnesses);
      }
    }
  }
}

// Where no node sends, only probes show which NICs live.
TEST_CASE("verdicts__of_idle_peers_are_those_of_busy_ones", "[V5]") {
  World world(three_nics());
  Chatter chatter(world, 80000);
  world.apply(0, 1, "kill");
  chatter.run_for(milliseconds(20));  // the paths are DOWN
  world.run_for(milliseconds(5000));
  check_local(world, 0, 1, Reason::witnesses);
  check_remote(world, 1, 0, 1, Reason::witnesses);
}

TEST_CASE("verdicts__a_nic_that_only_sends_in_vain_is_blamed_by_its_own_host") {
  World world(three_nics());
  Chatter chatter(world);
  world.apply(0, 2, "blackhole=tx");
  chatter.run_for(milliseconds(500));
  check_local(world, 0, 2, Reason::witnesses);
  CHECK(reached(world, 1) == 0);
  world.apply(0, 2, "blackhole=none");
  chatter.run_for(milliseconds(1500));
  check_withdrawn(world, 0, Reason::works_again);
  chatter.finish();
}

TEST_CASE("verdicts__a_nic_that_only_receives_nothing_is_blamed_by_the_others") {
  World world(three_nics());
  Chatter chatter(world);
  world.apply(0, 2, "blackhole=rx");
  chatter.run_for(milliseconds(500));
  check_remote(world, 1, 0, 2, Reason::witnesses);
  CHECK(reached(world, 0) == 0);
  world.apply(0, 2, "blackhole=none");
  chatter.run_for(milliseconds(1500));
  check_withdrawn(world, 1, Reason::works_again);
  chatter.finish();
}

TEST_CASE("verdicts__one_cell_is_a_link") {
  bool dead = false;
  World world(dead_link(three_nics(), 0, dead));
  Chatter chatter(world, 80000);  // over all cells
  dead = true;
  chatter.run_for(milliseconds(500));
  check_link(world, 0, 1, 0, 0);
  check_link(world, 1, 0, 0, 0);
  dead = false;
  chatter.run_for(milliseconds(1500));
  for (std::uint32_t node = 0; node < 2; ++node) check_withdrawn(world, node, Reason::works_again);
  chatter.finish();
}

TEST_CASE("verdicts__a_nic_that_dies_after_its_link_explains_the_link") {
  bool dead = false;
  World world(dead_link(three_nics(), 0, dead));
  Chatter chatter(world, 80000);  // over all cells
  dead = true;
  chatter.run_for(milliseconds(500));
  check_link(world, 0, 1, 0, 0);
  world.apply(0, 0, "kill");
  chatter.run_for(milliseconds(1000));
  for (std::uint32_t node = 0; node < 2; ++node) {
    INFO("node " << node);
    const auto standing = verdicts(world, node);
    REQUIRE(standing.size() == 1);
    CHECK(standing[0].blame == (node == 0 ? Blame::local_nic : Blame::remote_nic));
    const auto withdrawn = told(world, node, Event::Kind::verdict_withdrawn);
    REQUIRE(withdrawn.size() == 1);
    CHECK(withdrawn[0].blame == Blame::link);
    CHECK(withdrawn[0].reason == Reason::wider_verdict);
  }
}

TEST_CASE("verdicts__a_driver_needs_no_witness", "[V2]") {
  WorldConfig config = three_nics();
  config.nics = 2;
  World world(config);
  Chatter chatter(world);
  world.apply(0, 1, "kill:event");
  chatter.run_for(milliseconds(300));
  check_local(world, 0, 1, Reason::driver);
  check_remote(world, 1, 0, 1, Reason::peer_said);
  world.apply(0, 1, "revive:event");
  chatter.run_for(milliseconds(1500));
  check_withdrawn(world, 0, Reason::driver);
  check_withdrawn(world, 1, Reason::peer_said);
  chatter.finish();
}

TEST_CASE("verdicts__two_nics_and_one_peer_have_no_two_witnesses_for_a_row") {
  WorldConfig config = three_nics();
  config.nics = 2;
  World world(config);
  Chatter chatter(world);
  world.apply(0, 1, "kill");
  chatter.run_for(milliseconds(500));
  CHECK(reached(world, 0) == 0);
  // Node 1 has two witnesses: both its NICs are alive by node 0's other NIC, and neither reaches
  // the dead one.
  check_remote(world, 1, 0, 1, Reason::witnesses);
  chatter.finish();
}

TEST_CASE("verdicts__one_nic_a_side_is_never_blamed") {
  WorldConfig config = three_nics();
  config.nics = 1;
  config.tunables.peer_timeout_ms = 1000;
  World world(config);
  Chatter chatter(world);
  world.apply(0, 0, "kill");
  chatter.run_for(milliseconds(800));
  require_quiet(world);
}

TEST_CASE("verdicts__two_nics_and_two_peers") {
  WorldConfig config = three_nics(3);
  config.nics = 2;
  World world(config);
  Chatter chatter(world);
  world.apply(0, 1, "kill");
  chatter.run_for(milliseconds(500));
  check_local(world, 0, 1, Reason::witnesses);
  check_remote(world, 1, 0, 1, Reason::witnesses);
  check_remote(world, 2, 0, 1, Reason::witnesses);
  chatter.finish();
}

TEST_CASE("verdicts__a_host_that_is_gone_is_no_matter_of_nics", "[V4]") {
  for (const bool all_at_once : {true, false}) {
    INFO((all_at_once ? "all at once" : "one after the other"));
    WorldConfig config = three_nics(3);
    config.nics = 2;
    config.tunables.peer_timeout_ms = 1000;
    World world(config);
    Chatter chatter(world);
    world.apply(0, 0, "kill");
    if (!all_at_once) chatter.run_for(milliseconds(400));
    world.apply(0, 1, "kill");
    chatter.without(0);
    const std::string bytes(100, 'x');
    for (const std::uint32_t node : {1u, 2u}) (void)world.send(node, 0, 1, bytes);
    chatter.run_for(milliseconds(2500));
    for (const std::uint32_t node : {1u, 2u}) {
      INFO("node " << node);
      CHECK(verdicts(world, node).empty());
      CHECK(reached(world, node) == (all_at_once ? 0 : 1));
      const auto withdrawn = told(world, node, Event::Kind::verdict_withdrawn);
      REQUIRE(withdrawn.size() == (all_at_once ? 0 : 1));
      if (!all_at_once) CHECK(withdrawn[0].reason == Reason::session_ended);
    }
  }
}

TEST_CASE("verdicts__what_a_witness_was_called_for_goes_when_the_path_is_back", "[V3]") {
  World world(three_nics());
  Chatter chatter(world);
  world.apply(0, 1, "kill");
  chatter.run_for(milliseconds(300));
  CHECK(world.peer_stats(1, 0).paths.size() == 5);  // one for each NIC, a bridge, a witness
  world.apply(0, 1, "revive");
  chatter.run_for(milliseconds(1500));
  CHECK(world.peer_stats(1, 0).paths.size() == 3);
  chatter.finish();
}

TEST_CASE("events__each_change_of_a_path_is_told_with_its_reason") {
  World world(three_nics());
  Chatter chatter(world);
  world.apply(0, 1, "kill");
  chatter.run_for(milliseconds(300));
  world.apply(0, 1, "revive");
  chatter.run_for(milliseconds(1500));
  std::vector<std::pair<Event::Kind, Reason>> of_path;
  std::uint64_t number = 0;
  for (const Event& event : world.events(1)) {
    CHECK(event.number == number++);
    CHECK(event.reason != Reason::none);
    if (event.peer != kAnyPeer && event.nic == 1 && event.remote_nic == 1 &&
        event.blame == Blame::nobody) {
      of_path.emplace_back(event.kind, event.reason);
    }
  }
  using Kind = Event::Kind;
  REQUIRE(of_path.size() >= 4);
  CHECK(of_path[0].first == Kind::path_suspect);
  CHECK((of_path[0].second == Reason::silence || of_path[0].second == Reason::requests));
  CHECK(of_path[1] == std::pair(Kind::path_down, Reason::unanswered));
  CHECK(of_path[2] == std::pair(Kind::path_probing, Reason::answered));
  CHECK(of_path.back() == std::pair(Kind::path_up, Reason::proven));
  CHECK(world.events(1).front().kind == Kind::peer_calling);
  CHECK(world.events(1)[1].kind == Kind::peer_established);
  CHECK(world.stats(1).events_lost == 0);
}

TEST_CASE("events__those_that_nobody_polls_are_counted_when_they_go") {
  WorldConfig config = three_nics();
  config.tunables.max_peers = 2;  // 72 events
  World world(config);
  Chatter chatter(world);
  world.leave_events(0, true);
  for (int i = 0; i < 60; ++i) {
    world.apply(0, 2, i % 2 == 0 ? "kill:event" : "revive:event");
    world.run_for(microseconds(100));
  }
  world.leave_events(0, false);
  const std::size_t before = world.events(0).size();
  world.run_for(microseconds(100));
  const std::vector<Event>& events = world.events(0);
  REQUIRE(events.size() > before);
  const std::uint64_t lost = world.stats(0).events_lost;
  CHECK(lost > 0);
  CHECK(events[before].number == events[before - 1].number + 1 + lost);
  CHECK(events.back().number + 1 == events.size() + lost);
}

TEST_CASE("verdicts__of_a_local_nic_go_with_the_last_session", "[V4]") {
  World world(three_nics(3));
  Chatter chatter(world);
  world.apply(0, 1, "kill");
  chatter.run_for(milliseconds(400));
  check_local(world, 0, 1, Reason::witnesses);
  for (std::uint32_t other = 1; other < 3; ++other) {
    world.disconnect(0, other);
    world.run_for(milliseconds(1500));
    if (other == 1) check_local(world, 0, 1, Reason::witnesses);
  }
  check_withdrawn(world, 0, Reason::session_ended);
}

}  // namespace
}  // namespace hawser::test
