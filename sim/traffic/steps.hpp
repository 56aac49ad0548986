// SPDX-License-Identifier: Apache-2.0
// What a run's times say about its steps: when each was complete, and which chain of messages took
// as long as the whole.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/traffic/connection_matrix.hpp"

namespace hawser::fabric {

// The times of a connection, which count from the matrix's beginning; kNever: it didn't get there.
struct FlowSpan {
  Instant started = kNever;
  Instant received = kNever;  // the receiver has it all
  Instant ended = kNever;     // the sender knows
};

// The messages that a receiver awaited in a step, from the first one's start to the last one's end.
struct StepSpan {
  std::uint32_t step = 0;  // Connection::step
  std::uint32_t node = 0;  // the receiver
  std::uint32_t messages = 0;
  Instant started = kNever;
  Instant received;  // kNever unless all were received

  [[nodiscard]] Span took() const { return received - started; }
};

// One entry for each step and receiver, by step, then by node. `flows` has one for each connection.
[[nodiscard]] std::vector<StepSpan> steps_by_node(const ConnectionMatrix& matrix,
                                                  std::span<const FlowSpan> flows);
// One entry for each step, over all receivers; `node` is 0.
[[nodiscard]] std::vector<StepSpan> steps_of(const ConnectionMatrix& matrix,
                                             std::span<const FlowSpan> flows);

// The chain of triggers that ends with the message that was received last: the end of each message
// started the next. In an unfinished run the chain ends where the run stopped. It is empty if
// nothing was received.
struct Chain {
  std::vector<std::uint32_t> connections;  // places in the matrix
  Instant started = kNever;                // of the first
  Instant received = kNever;               // of the last
  Span moving{};  // sum of times from start to the end that starts the next
};
[[nodiscard]] Chain longest_chain(const ConnectionMatrix& matrix, std::span<const FlowSpan> flows);

}  // namespace hawser::fabric
