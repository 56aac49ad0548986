// SPDX-License-Identifier: Apache-2.0
// Puts a matrix together from operations that follow each other at each node.
//
// A moment is a trigger, or kBegin: the matrix's beginning. Each node has a moment at which it is
// ready for its next operation. An operation starts from those of its nodes and leaves later ones
// there: a later moment comes when the node has received all that it awaits. All triggers are
// barriers: what must come before a moment is added to it one by one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/fabric/input_error.hpp"
#include "sim/traffic/connection_matrix.hpp"

namespace hawser::fabric {

using Moment = std::uint32_t;  // a trigger's id
inline constexpr Moment kBegin = 0;

struct Message {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint64_t bytes = 0;
  Moment after = kBegin;
  Moment when_sent = kBegin;      // the moment that waits for it; kBegin: none
  Moment when_received = kBegin;  // likewise
  std::uint32_t step = 0;
  Hint hint{};
};

class MatrixBuilder {
 public:
  // An endpoint can have no more peers, so more nodes make no sense.
  static constexpr std::uint32_t kMostNodes = 65536;
  static constexpr std::uint64_t kMostConnections = 8'000'000;
  static constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40;

  // Throws InputError if there are fewer than 2 nodes, or too many.
  explicit MatrixBuilder(std::uint32_t nodes);

  [[nodiscard]] std::uint32_t nodes() const { return matrix_.nodes; }

  [[nodiscard]] Moment ready(std::uint32_t node) const { return ready_[node]; }
  void set_ready(std::uint32_t node, Moment moment) { ready_[node] = moment; }
  // The node's next operation starts so much later.
  void compute(std::uint32_t node, Span span) { ready_[node] = later(ready_[node], span); }

  // A new moment, which waits for nothing as yet.
  [[nodiscard]] Moment moment();
  // A multishot trigger: each message that has it as `after` starts when one that has it as
  // `when_sent` has been sent, in their order.
  [[nodiscard]] Moment window();
  // `earlier` must come before `moment`; an `earlier` of kBegin adds nothing.
  void must_precede(Moment earlier, Moment moment);
  [[nodiscard]] Moment later(Moment moment, Span span);
  // The moment when both have come.
  [[nodiscard]] Moment both(Moment one, Moment other);

  // Numbers for a step, and for `count` groups of messages (Hint::group).
  [[nodiscard]] std::uint32_t new_step() { return ++steps_; }
  [[nodiscard]] std::uint32_t new_groups(std::uint32_t count);

  // Returns its place. Throws InputError if it is too long, or one too many. Leave out messages of
  // 0 bytes, or of a node to itself.
  std::uint32_t send(const Message& message);
  // For a message that was added before its receiver's next moment was known.
  void set_when_received(std::uint32_t place, Moment moment);
  void set_start(std::uint32_t place, Instant start) { matrix_.connections[place].start = start; }

  [[nodiscard]] ConnectionMatrix finish() && { return std::move(matrix_); }

 private:
  [[nodiscard]] Trigger& at(Moment moment) { return matrix_.triggers[moment - 1]; }
  void expect(Moment moment);

  ConnectionMatrix matrix_;
  std::vector<Moment> ready_;
  std::vector<bool> used_;  // moments that something follows already, so they can't be put off
  std::uint32_t steps_ = 0;
  std::uint32_t groups_ = 0;
};

}  // namespace hawser::fabric
