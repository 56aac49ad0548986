// SPDX-License-Identifier: Apache-2.0
// Two endpoints in one thread. One sends messages to the other; each one's time in calls and turns
// is measured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace hawser::bench {

struct PairConfig {
  bool passing = false;  // over NICs that hand packets over in place; else over memory NICs
  bool traced = false;
  bool unpacked = false;  // each message in a packet of its own
  bool own_time = false;  // a turn a microsecond after the last, in every run
  bool mempool = false;   // packets come from an rte_mempool: the program has started EAL
  std::uint8_t nics = 1;  // of each side
};

struct Load {
  std::size_t message_bytes = 8;
  std::uint64_t messages = 0;
  bool copy = false;          // receives have bytes to copy into; else none
  std::size_t buffers = 1;    // buffers to send from and to receive into, in turn
  std::uint64_t window = 32;  // messages under way
};

struct Measured {
  double send_ns = 0;  // per unit: a packet of long messages, or a short message
  double receive_ns = 0;
  std::uint64_t units = 0;
  std::uint64_t all_units = 0;  // since the pair was made
  std::uint64_t hash = 0;       // of the last buffer's content
};

class MeasuredPair {
 public:
  explicit MeasuredPair(const PairConfig& config);
  ~MeasuredPair();
  // Ends the program if an operation is refused or fails, or if anything is retransmitted. A fifth
  // of the messages go ahead unmeasured.
  [[nodiscard]] Measured measure(const Load& load);

 private:
  struct Sides;
  std::unique_ptr<Sides> sides_;
};

}  // namespace hawser::bench
