// SPDX-License-Identifier: Apache-2.0
// What a run's times say of its steps: when each was complete, and which messages, one after the
// other, took as long as the whole.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/traffic/connection_matrix.hpp"

namespace hawser::fabric {

// Of a connection, in a time that is 0 when the matrix begins; kNever: it didn't come to that.
struct FlowSpan {
  Instant started = kNever;
  Instant received = kNever;  // the receiver has it all
  Instant ended = kNever;     // the sender knows
};

// What a receiver awaited in a step, from the first start of one of those messages to the last
// one's end.
struct StepSpan {
  std::uint32_t step = 0;  // Connection::step
  std::uint32_t node = 0;  // the receiver
  std::uint32_t messages = 0;
  Instant started = kNever;
  Instant received;  // kNever unless all were

  [[nodiscard]] Span took() const { return received - started; }
};

// One for each step and receiver, by step, then by node. `flows` are as many as connections.
[[nodiscard]] std::vector<StepSpan> steps_by_node(const ConnectionMatrix& matrix,
                                                  std::span<const FlowSpan> flows);
// One for each step, over all receivers; `node` is 0.
[[nodiscard]] std::vector<StepSpan> steps_of(const ConnectionMatrix& matrix,
                                             std::span<const FlowSpan> flows);

// The chain of triggers that ends with the message that was received last: each one's end is what
// started the next. Chains of what hasn't ended end where it stopped; none: nothing was received.
struct Chain {
  std::vector<std::uint32_t> connections;  // places in the matrix
  Instant started = kNever;                // of the first
  Instant received = kNever;               // of the last
  Span moving{};                           // sum over them, from start to what started the next
};
[[nodiscard]] Chain longest_chain(const ConnectionMatrix& matrix, std::span<const FlowSpan> flows);

}  // namespace hawser::fabric
