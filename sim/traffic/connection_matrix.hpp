// SPDX-License-Identifier: Apache-2.0
// The messages of a run: who sends how much to whom, and when or after what.
#pragma once

#include <cstdint>
#include <vector>

#include "hawser/types.hpp"
#include "sim/fabric/instant.hpp"

namespace hawser::fabric {

struct Connection {
  std::uint32_t from = 0;  // nodes
  std::uint32_t to = 0;
  std::uint32_t id = 0;  // 0: none
  std::uint64_t bytes = 0;
  Instant start{};                  // if no trigger starts it
  std::uint32_t trigger = 0;        // starts it; 0: none, as in the next two
  std::uint32_t when_sent = 0;      // fires when the sender knows that all has arrived
  std::uint32_t when_received = 0;  // fires when the receiver has it all
  std::uint32_t line = 0;           // in the file that it was read from
  Hint hint{};                      // a collective's operations know this of it
  // All connections of a matrix with this number, whoever their receivers, are one step of one
  // collective: each receiver awaits its messages of a step before it goes on. Steps count from 1
  // over the matrix, in their order; 0: of no step.
  std::uint32_t step = 0;
};

struct Trigger {
  enum class Kind : std::uint8_t {
    oneshot,    // the first time that it fires, all that wait for it start
    multishot,  // each time that it fires, the next one that waits starts, in the matrix's order
    barrier,    // when it has fired `count` times, all that wait for it start; with a count of 0,
                // when the matrix begins
  };
  std::uint32_t id = 0;
  Kind kind = Kind::oneshot;
  std::uint32_t count = 0;
  // For oneshots and barriers: how long after that (a node computes), and which triggers fire then.
  // A node goes on when its own work is done and all that it awaits has come: barriers express
  // that.
  Span delay{};
  std::vector<std::uint32_t> then{};
};

struct ConnectionMatrix {
  std::uint32_t nodes = 0;
  std::vector<Connection> connections;
  std::vector<Trigger> triggers;
};

}  // namespace hawser::fabric
