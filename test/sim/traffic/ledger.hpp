// SPDX-License-Identifier: Apache-2.0
// Counts the bytes that a matrix asks for, and carries it out on hosts that run the protocol.
#pragma once

#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "sim/core/pool.hpp"
#include "sim/experiment/matrix_run.hpp"
#include "sim/traffic/generate.hpp"
#include "sim/traffic/steps.hpp"
#include "sim/traffic/triggers.hpp"

namespace hawser::fabric {

struct Ledger {
  std::vector<std::uint64_t> sent;  // bytes, by node
  std::vector<std::uint64_t> received;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> pairs;
  std::set<std::uint32_t> steps;

  explicit Ledger(const ConnectionMatrix& matrix) : sent(matrix.nodes), received(matrix.nodes) {
    for (const Connection& one : matrix.connections) {
      sent[one.from] += one.bytes;
      received[one.to] += one.bytes;
      pairs[{one.from, one.to}] += one.bytes;
      if (one.step != 0) steps.insert(one.step);
    }
  }
};

// Checks that everything can start, that no node sends nothing or to itself, and that steps count
// from 1. Each group must have as many messages to a receiver as its hints say.
inline void check_whole(const ConnectionMatrix& matrix) {
  CHECK_FALSE(waits_for_ever(matrix));
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::uint32_t> messages;
  bool is_sound = true;
  for (const Connection& one : matrix.connections) {
    is_sound = is_sound && one.from != one.to && one.bytes > 0 && one.to < matrix.nodes &&
               one.from < matrix.nodes && one.hint.step < std::max<int>(1, one.hint.steps);
    ++messages[{one.hint.group, one.hint.step, one.to}];
  }
  for (const Connection& one : matrix.connections) {
    if (one.hint.group == 0) continue;
    is_sound = is_sound && one.hint.members == messages[{one.hint.group, one.hint.step, one.to}];
  }
  CHECK(is_sound);
  const std::set<std::uint32_t> steps = Ledger(matrix).steps;
  if (!steps.empty()) CHECK(*steps.rbegin() == steps.size());
}

struct Carried {
  std::vector<FlowSpan> flows;  // from the matrix's beginning
  Instant last{};               // of the last message to be received
};

// Carries the matrix out on one switch of 100 Gb/s, with all hints; all flows have to end.
inline Carried carry(const ConnectionMatrix& matrix) {
  EventWheel events;
  Network network(events, one_switch(matrix.nodes, 100 * kGigabit, microseconds(1)), 1, 128);
  sim::Pool pool(1024);
  experiment::ViewSlots slots(experiment::NicConfig{}.max_datagram_bytes);
  experiment::MatrixRun run({events, network, pool, slots}, matrix, {});
  REQUIRE(run.connect(microseconds(10'000'000)));
  REQUIRE(run.run(microseconds(10'000'000)));
  Carried carried;
  const auto since = [&](Instant at) { return Instant{(at - run.begun()).ps}; };
  for (std::uint32_t i = 0; i < matrix.connections.size(); ++i) {
    const experiment::FlowTimes& times = run.times(i);
    REQUIRE(times.ended != kNever);
    carried.flows.push_back({since(times.started), since(times.received), since(times.ended)});
    carried.last = std::max(carried.last, since(times.received));
  }
  return carried;
}

}  // namespace hawser::fabric
