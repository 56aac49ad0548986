// SPDX-License-Identifier: Apache-2.0
// The ideal completion compared with hand calculation.
#include "sim/experiment/ideal.hpp"

#include <catch2/catch.hpp>

namespace hawser::experiment {
namespace {

using fabric::Connection;
using fabric::ConnectionMatrix;
using fabric::Instant;
using fabric::kGigabit;
using fabric::microseconds;
using fabric::Trigger;

constexpr std::int64_t kByte = 80;  // ps at 100 Gb/s
constexpr std::int64_t kUs = 1'000'000;

ConnectionMatrix matrix_of(std::uint32_t nodes, std::vector<Connection> connections,
                           std::vector<Trigger> triggers = {}) {
  return {nodes, std::move(connections), std::move(triggers)};
}

// 490 packets with 64 bytes of headers pass five switches, with cables of 1 us, and an
// acknowledgement of 64 bytes comes back. The time is in docs/lab/simulator.md; htsim publishes
// 176.2 us.
TEST_CASE("ideal__one_flow_through_three_tiers_is_the_published_one") {
  const fabric::Shape shape = fabric::fat_tree(4, 100 * kGigabit, microseconds(1));
  const auto matrix = matrix_of(16, {{.from = 0, .to = 13, .bytes = 2'000'000}});
  const Ideal ideal = ideal_completion(matrix, shape, {4086, 64});
  const std::int64_t bytes = 2'000'000 + 490 * 64;
  CHECK(wire_bytes(2'000'000, {4086, 64}) == static_cast<std::uint64_t>(bytes));
  const std::int64_t received = bytes * kByte + 5 * 4150 * kByte + 6 * kUs;
  CHECK(ideal.flows[0].received == Instant{received});
  CHECK(ideal.last == Instant{received + 6 * 64 * kByte + 6 * kUs});
  CHECK(static_cast<double>(ideal.last.ps) / kUs == Approx(176.2).margin(0.005));
}

TEST_CASE("ideal__a_message_of_one_packet_is_stored_at_each_switch") {
  const fabric::Shape shape = fabric::leaf_spine(2, 2, 2, 100 * kGigabit, microseconds(1));
  const auto matrix = matrix_of(4, {{.from = 0, .to = 1, .bytes = 1000},
                                    {.from = 2, .to = 3, .bytes = 0, .start = Instant{5 * kUs}}});
  const Ideal ideal = ideal_completion(matrix, shape, {4096, 90});
  // Hosts at one leaf are two cables apart. An empty message is one packet.
  CHECK(ideal.flows[0].received == Instant{2 * 1090 * kByte + 2 * kUs});
  CHECK(ideal.flows[1].received == Instant{7 * kUs + 2 * 90 * kByte});
  CHECK(ideal.flows[0].step == 0);
  CHECK(ideal.flows[1].step == 1);
}

TEST_CASE("ideal__an_incast_is_its_receivers_cable") {
  const fabric::Shape shape = fabric::one_switch(5, 100 * kGigabit, microseconds(1));
  std::vector<Connection> all;
  for (std::uint32_t i = 1; i < 5; ++i) all.push_back({.from = i, .to = 0, .bytes = 81'920});
  const Ideal ideal = ideal_completion(matrix_of(5, all), shape, {4096, 90});
  const std::int64_t bytes = 4 * 20 * 4186;
  // The first packet passes two cables; all others follow it on the second one.
  const std::int64_t received = (bytes + 4186) * kByte + 2 * kUs;
  CHECK(ideal.flows[3].received == Instant{received});
  CHECK(ideal.last == Instant{received + 2 * 90 * kByte + 2 * kUs});
}

// Four hosts of a leaf send to another leaf over one spine. Each gets a quarter of the spine's
// cable.
TEST_CASE("ideal__an_oversubscribed_leaf_is_narrower_than_its_hosts") {
  const fabric::Shape shape = fabric::leaf_spine(2, 4, 1, 100 * kGigabit, microseconds(1));
  std::vector<Connection> all;
  for (std::uint32_t i = 0; i < 4; ++i) all.push_back({.from = i, .to = 4 + i, .bytes = 40'960});
  const Ideal ideal = ideal_completion(matrix_of(8, all), shape, {4096, 90});
  CHECK(ideal.flows[0].received == Instant{(4 * 10 * 4186 + 3 * 4186) * kByte + 4 * kUs});
}

// A host of two NICs on rails sends half of its bytes over each.
TEST_CASE("ideal__all_nics_of_a_host_share_its_bytes") {
  fabric::Shape shape = fabric::leaf_spine(4, 2, 2, 100 * kGigabit, microseconds(1));
  shape.hosts = 4;
  shape.nics = 2;
  shape.placement = fabric::Placement::rails;
  const auto matrix = matrix_of(4, {{.from = 0, .to = 3, .bytes = 409'600}});
  const Ideal ideal = ideal_completion(matrix, shape, {4096, 90});
  const std::int64_t rest = 99 * 4186 * kByte / 2;
  CHECK(ideal.flows[0].received == Instant{rest + 4 * 4186 * kByte + 4 * kUs});
}

// A token goes around four hosts. Each hop starts when the receiver has the previous one. Another
// host sends beside it.
TEST_CASE("ideal__steps_are_the_longest_chain_of_triggers") {
  const fabric::Shape shape = fabric::one_switch(4, 100 * kGigabit, microseconds(1));
  std::vector<Connection> ring;
  std::vector<Trigger> triggers;
  for (std::uint32_t i = 0; i < 4; ++i) {
    ring.push_back({.from = i,
                    .to = (i + 1) % 4,
                    .bytes = 4096,
                    .trigger = i,
                    .when_received = i < 3 ? i + 1 : 0});
    if (i < 3) triggers.push_back({.id = i + 1});
  }
  const Ideal ideal = ideal_completion(matrix_of(4, ring, triggers), shape, {4096, 90});
  const std::int64_t hop = 2 * 4186 * kByte + 2 * kUs;
  for (std::uint32_t i = 0; i < 4; ++i) {
    CHECK(ideal.flows[i].started == Instant{i * hop});
    CHECK(ideal.flows[i].step == i);
  }
  CHECK(ideal.last == Instant{4 * hop + 2 * 90 * kByte + 2 * kUs});
  REQUIRE(ideal.steps.size() == 4);
  CHECK(ideal.steps[2].started == Instant{2 * hop});
}

TEST_CASE("ideal__a_barrier_opens_with_the_last_of_its_step") {
  const fabric::Shape shape = fabric::one_switch(4, 100 * kGigabit, microseconds(1));
  const auto matrix = matrix_of(4,
                                {{.from = 0, .to = 1, .bytes = 4096, .when_received = 1},
                                 {.from = 2, .to = 3, .bytes = 40'960, .when_received = 1},
                                 {.from = 1, .to = 0, .bytes = 4096, .trigger = 1}},
                                {{.id = 1, .kind = Trigger::Kind::barrier, .count = 2}});
  const Ideal ideal = ideal_completion(matrix, shape, {4096, 90});
  CHECK(ideal.flows[2].started == Instant{11 * 4186 * kByte + 2 * kUs});
  CHECK(ideal.flows[2].step == 1);
}

// Chains end at one host at different times. No single step's bytes show that the host's cable
// carries them all.
TEST_CASE("ideal__no_order_of_steps_makes_a_cable_faster") {
  const fabric::Shape shape = fabric::one_switch(8, 100 * kGigabit, microseconds(1));
  std::vector<Connection> all;
  for (std::uint32_t i = 1; i < 8; ++i) {
    all.push_back({.from = i, .to = 0, .bytes = 409'600, .start = Instant{i}});
  }
  const Ideal ideal = ideal_completion(matrix_of(8, all), shape, {4096, 90});
  CHECK(ideal.steps.size() == 7);
  CHECK(ideal.last ==
        Instant{1 + (7 * 100 + 1) * 4186 * kByte + 2 * kUs + 2 * 90 * kByte + 2 * kUs});
}

}  // namespace
}  // namespace hawser::experiment
