// SPDX-License-Identifier: Apache-2.0
// Two endpoints in one thread, of which one sends messages to the other, and the time that each
// spends in its calls and turns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace hawser::bench {

struct PairConfig {
  bool passing = false;  // over NICs that hand packets over where they lie; else over memory NICs
  bool traced = false;
  bool unpacked = false;  // each message in a packet of its own
  bool own_time = false;  // each turn comes a microsecond after the last: the same in every run
};

struct Load {
  std::size_t message_bytes = 8;
  std::uint64_t messages = 0;
  bool copy = false;          // receives have their bytes; else none
  std::size_t buffers = 1;    // that messages are sent from, and received into, in turn
  std::uint64_t window = 32;  // messages under way
};

struct Measured {
  double send_ns = 0;  // of a unit: a packet of long messages, or a short message
  double receive_ns = 0;
  std::uint64_t units = 0;
  std::uint64_t all_units = 0;  // since the pair was made
  std::uint64_t hash = 0;       // of what lies in the last buffer
};

class MeasuredPair {
 public:
  explicit MeasuredPair(const PairConfig& config);
  ~MeasuredPair();
  // Ends the program if an operation is refused or fails, or if anything is sent again. A fifth of
  // the messages go before what is measured.
  [[nodiscard]] Measured measure(const Load& load);

 private:
  struct Sides;
  std::unique_ptr<Sides> sides_;
};

}  // namespace hawser::bench
