// SPDX-License-Identifier: Apache-2.0
// Delays, moments after each other, and what a run's times show about steps and chains.
#include "sim/traffic/steps.hpp"

#include "sim/traffic/matrix_builder.hpp"
#include "test/sim/fabric/samples.hpp"
#include "test/sim/traffic/ledger.hpp"

namespace hawser::fabric {
namespace {

using Started = std::vector<std::uint32_t>;
constexpr auto kBarrier = Trigger::Kind::barrier;

// 0 sends to 1. Then 1 computes for 5 us and, 3 us later, sends to 2.
ConnectionMatrix delayed() {
  ConnectionMatrix matrix;
  matrix.nodes = 3;
  matrix.connections = {{.from = 0, .to = 1, .bytes = 1000, .when_received = 2, .step = 1},
                        {.from = 1, .to = 2, .bytes = 1000, .trigger = 2, .step = 2}};
  matrix.triggers = {{.id = 1, .kind = kBarrier, .count = 0, .delay = microseconds(5), .then = {2}},
                     {.id = 2, .kind = kBarrier, .count = 2, .delay = microseconds(3), .then = {}}};
  return matrix;
}

TEST_CASE("triggers__one_goes_off_after_its_delay_and_fires_others") {
  std::vector<std::pair<std::uint32_t, std::int64_t>> later;
  Triggers triggers(
      delayed(), [&](std::uint32_t trigger, Span delay) { later.emplace_back(trigger, delay.ps); });
  CHECK(triggers.begin().empty());
  REQUIRE(later == std::vector<std::pair<std::uint32_t, std::int64_t>>{{0, 5'000'000}});
  CHECK(triggers.on_received(0).empty());
  CHECK(later.size() == 1);
  CHECK(triggers.expire(0).empty());
  REQUIRE(later.size() == 2);
  CHECK(later[1] == std::pair<std::uint32_t, std::int64_t>{1, 3'000'000});
  CHECK(triggers.expire(1) == Started{1});
  // Without a clock there are no delays.
  Triggers timeless(delayed());
  CHECK(timeless.begin().empty());
  CHECK(timeless.on_received(0) == Started{1});
  CHECK_FALSE(waits_for_ever(delayed()));
  ConnectionMatrix stuck = delayed();
  stuck.triggers[0].count = 1;
  CHECK(waits_for_ever(stuck) == 1);
}

// Chains of triggers may have any length, and a circular one ends.
TEST_CASE("triggers__long_chains_and_circles") {
  constexpr std::uint32_t kLong = 300'000;
  ConnectionMatrix matrix;
  matrix.nodes = 2;
  matrix.connections = {{.from = 0, .to = 1, .bytes = 1, .when_sent = 1},
                        {.from = 0, .to = 1, .bytes = 1, .trigger = kLong}};
  for (std::uint32_t id = 1; id <= kLong; ++id)
    matrix.triggers.push_back({.id = id, .then = {id % kLong + 1}});
  Triggers triggers(matrix);
  CHECK(triggers.on_sent(0) == Started{1});
  CHECK(triggers.on_sent(0).empty());
}

TEST_CASE("matrix_run__a_connection_starts_after_its_triggers_delay") {
  const ConnectionMatrix matrix = delayed();
  const Carried carried = carry(matrix);
  const Instant computed{5'000'000};
  CHECK(carried.flows[1].started ==
        std::max(computed, carried.flows[0].received) + microseconds(3));
  ConnectionMatrix slow = matrix;
  slow.triggers[0].delay = microseconds(500);
  CHECK(carry(slow).flows[1].started == Instant{} + microseconds(503));
}

// A send that follows an earlier moment keeps its time when the node goes on to compute.
TEST_CASE("matrix_builder__only_what_comes_later_is_put_off") {
  MatrixBuilder builder(2);
  builder.compute(0, microseconds(10));
  const Moment computed = builder.ready(0);
  builder.send({.from = 0, .to = 1, .bytes = 1, .after = computed});
  builder.compute(0, microseconds(20));
  CHECK(builder.ready(0) != computed);
  builder.compute(0, microseconds(30));
  builder.send({.from = 0, .to = 1, .bytes = 1, .after = builder.ready(0)});
  const Carried carried = carry(std::move(builder).finish());
  CHECK(carried.flows[0].started == Instant{} + microseconds(10));
  CHECK(carried.flows[1].started == Instant{} + microseconds(60));
}

TEST_CASE("steps__are_complete_when_their_last_message_is") {
  ConnectionMatrix matrix;
  matrix.nodes = 3;
  matrix.connections = {{.from = 0, .to = 1, .bytes = 1, .step = 1},
                        {.from = 2, .to = 1, .bytes = 1, .step = 1},
                        {.from = 0, .to = 2, .bytes = 1, .step = 1},
                        {.from = 0, .to = 2, .bytes = 1, .step = 2},
                        {.from = 0, .to = 2, .bytes = 1}};
  std::vector<FlowSpan> flows(5);
  for (int i = 0; i < 5; ++i) flows[i] = {Instant{10 + i}, Instant{20 + 3 * i}, Instant{100}};
  flows[3].received = kNever;
  const std::vector<StepSpan> by_node = steps_by_node(matrix, flows);
  REQUIRE(by_node.size() == 3);
  CHECK(by_node[0].node == 1);
  CHECK(by_node[0].messages == 2);
  CHECK(by_node[0].started == Instant{10});
  CHECK(by_node[0].received == Instant{23});
  CHECK(by_node[0].took() == Span{13});
  CHECK(by_node[1].node == 2);
  CHECK(by_node[1].took() == Span{14});
  CHECK(by_node[2].step == 2);
  CHECK(by_node[2].received == kNever);
  const std::vector<StepSpan> steps = steps_of(matrix, flows);
  REQUIRE(steps.size() == 2);
  CHECK(steps[0].messages == 3);
  CHECK(steps[0].took() == Span{16});
}

TEST_CASE("steps__the_longest_chain_is_what_the_last_one_waited_for") {
  // Connections 0 and 1 start at once. 2 needs both and a delay of 7. 3 needs the sender's
  // knowledge of 0.
  ConnectionMatrix matrix;
  matrix.nodes = 4;
  matrix.connections = {{.from = 0, .to = 1, .bytes = 1, .when_sent = 2, .when_received = 1},
                        {.from = 2, .to = 1, .bytes = 1, .when_received = 1},
                        {.from = 1, .to = 3, .bytes = 1, .trigger = 1},
                        {.from = 0, .to = 3, .bytes = 1, .trigger = 2}};
  matrix.triggers = {{.id = 1, .kind = kBarrier, .count = 2, .delay = Span{7}, .then = {}},
                     {.id = 2, .kind = Trigger::Kind::oneshot, .then = {}}};
  std::vector<FlowSpan> flows{{Instant{0}, Instant{50}, Instant{60}},
                              {Instant{0}, Instant{40}, Instant{90}},
                              {Instant{57}, Instant{80}, Instant{99}},
                              {Instant{60}, Instant{70}, Instant{99}}};
  Chain chain = longest_chain(matrix, flows);
  CHECK(chain.connections == Started{0, 2});
  CHECK(chain.started == Instant{0});
  CHECK(chain.received == Instant{80});
  CHECK(chain.moving == Span{50 + 23});
  flows[1].received = Instant{52};
  flows[2].started = Instant{59};
  CHECK(longest_chain(matrix, flows).connections == Started{1, 2});
  flows[3].received = Instant{81};
  chain = longest_chain(matrix, flows);
  CHECK(chain.connections == Started{0, 3});
  CHECK(chain.moving == Span{60 + 21});
  for (FlowSpan& flow : flows) flow.received = kNever;
  CHECK(longest_chain(matrix, flows).connections.empty());
}

// A ring's chain goes around: each message was started by the one that arrived at its sender.
TEST_CASE("steps__the_chain_of_a_ring_has_all_its_steps") {
  const ConnectionMatrix ring =
      generate({.kind = Traffic::Kind::ring, .nodes = 6, .bytes = 60'000}, 1);
  const Carried carried = carry(ring);
  const Chain chain = longest_chain(ring, carried.flows);
  REQUIRE(chain.connections.size() == 10);
  for (std::size_t i = 1; i < 10; ++i) {
    const Connection& before = ring.connections[chain.connections[i - 1]];
    const Connection& one = ring.connections[chain.connections[i]];
    CHECK(one.from == before.to);
    CHECK(one.step == before.step + 1);
  }
  CHECK(chain.received == carried.last);
  CHECK(chain.moving == chain.received - chain.started);
}

ConnectionMatrix shrunk(ConnectionMatrix matrix, std::uint64_t by) {
  for (Connection& one : matrix.connections) one.bytes /= by;
  return matrix;
}

// The published ring has 31 hops in each of its 16 chains, one more than an all-reduce needs. The
// published butterfly is recursive doubling of 8 MB.
TEST_CASE("generate__as_the_published_rings_and_butterflies") {
  if (!have_samples()) return;
  constexpr std::uint64_t kShrink = 16;
  const ConnectionMatrix published = shrunk(matrix("reps_cm", "all_red_ring_8mb.cm"), kShrink);
  const ConnectionMatrix ring =
      generate({.kind = Traffic::Kind::ring, .nodes = 16, .bytes = 16 * 8'000'000 / kShrink}, 1);
  const Ledger theirs(published);
  const Ledger ours(ring);
  CHECK(theirs.pairs.size() == 16);
  CHECK(ours.pairs.size() == 16);
  for (const auto& [pair, bytes] : ours.pairs) {
    CHECK(bytes == 30 * 8'000'000 / kShrink);
    CHECK(theirs.pairs.at(pair) == bytes / 30 * 31);
  }
  // Their hops start when the sender knows, and ours when the receiver has the message: half a
  // round trip sooner.
  const double hop = static_cast<double>(carry(published).last.ps) / 31;
  const double our_hop = static_cast<double>(carry(ring).last.ps) / 30;
  CHECK(our_hop < hop);
  CHECK(our_hop > hop - 12e6);
  CHECK(our_hop == Approx(hop).epsilon(0.15));

  const ConnectionMatrix butterfly = shrunk(matrix("reps_cm", "all_red_butterfly_8mb.cm"), kShrink);
  const ConnectionMatrix doubling =
      generate({.kind = Traffic::Kind::doubling, .nodes = 16, .bytes = 8'000'000 / kShrink}, 1);
  CHECK(Ledger(butterfly).pairs == Ledger(doubling).pairs);
  CHECK(static_cast<double>(carry(doubling).last.ps) ==
        Approx(static_cast<double>(carry(butterfly).last.ps)).epsilon(0.15));
}

}  // namespace
}  // namespace hawser::fabric
