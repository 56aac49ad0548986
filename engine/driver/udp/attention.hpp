// SPDX-License-Identifier: Apache-2.0
// Chooses which of an endpoint's receive queues a turn asks. Each question is a system call that
// costs as much as receiving a small packet, even if it finds nothing.
//
// A queue is warm for a while after it brought something. After a turn that brought something, the
// next turn asks all warm queues. Otherwise, if packets keep coming by one queue, the turn asks
// that queue alone, so a caller that waits for an answer sees it soonest.
//
// One call to poll looks at all other queues together, in three cases. No queue is asked. The
// protocol has something due, and needs to know whether a path is silent. Or the queues have not
// been looked at for kLookInterval. No packet waits longer than that interval, and the cost of an
// empty turn does not grow with the number of NICs.
#pragma once

#include <cstddef>
#include <vector>

#include "proto/base/time.hpp"

namespace hawser::engine {

class Attention {
 public:
  static constexpr proto::Duration kLookInterval = proto::microseconds(20);
  static constexpr proto::Duration kWarm = proto::microseconds(50);

  // Adds a queue. Queues are numbered from 0.
  void add();

  // The queue brought something in the turn that began last, or still holds more.
  void heard(std::size_t queue) { queues_[queue].heard_in_turn = true; }
  // Begins a turn; the protocol wanted one at `due`. Decides what asks() returns. True: look at the
  // queues that are not asked, too.
  [[nodiscard]] bool begin_turn(proto::Time now, proto::Time due);
  [[nodiscard]] bool asks(std::size_t queue) const { return queues_[queue].asks; }
  [[nodiscard]] std::size_t count() const { return queues_.size(); }
  [[nodiscard]] std::size_t asked() const { return asked_; }

 private:
  struct Queue {
    proto::Time warm_until{};
    bool heard_in_turn = false;
    bool asks = true;
  };
  // Moves the queues that brought something in the last turn to the front. Returns their number.
  std::size_t note_heard(proto::Time now);

  std::vector<Queue> queues_;
  std::vector<std::size_t> order_;  // queues, the most recent one to bring something in front
  std::size_t asked_ = 0;
  bool keeps_coming_ = false;  // the last two arrivals came by the same queue
  proto::Time looked_at_{};    // the last time that all were asked or looked at
};

}  // namespace hawser::engine
