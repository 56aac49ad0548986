// SPDX-License-Identifier: Apache-2.0
// Which of an endpoint's receive queues a turn asks, where each question is a system call that
// costs as much as receiving a small packet, found something or not.
//
// A queue is warm for a while after it brought something. A turn after one that brought something
// asks all warm queues. Else, if what comes keeps coming by the same queue, it asks that one: who
// waits for an answer sees it soonest so. The others are looked at all at once, by one call: when
// no queue is asked, when the protocol has something due (what it then says of silence must be
// true), and when they have not been looked at for kLookInterval. No packet lies longer than that,
// and what a turn costs that finds nothing does not grow with the number of NICs.
#pragma once

#include <cstddef>
#include <vector>

#include "proto/base/time.hpp"

namespace hawser::engine {

class Attention {
 public:
  static constexpr proto::Duration kLookInterval = proto::microseconds(20);
  static constexpr proto::Duration kWarm = proto::microseconds(50);

  // One more queue, numbered from 0.
  void add();

  // The queue brought something in the turn that began last, or has more of what it brought.
  void heard(std::size_t queue) { queues_[queue].heard_in_turn = true; }
  // A turn begins; the protocol wanted one at `due`. Decides what asks() answers; true: the queues
  // that are not asked are to be looked at too.
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
  // Puts what the last turn heard in front; how many queues it heard.
  std::size_t note_heard(proto::Time now);

  std::vector<Queue> queues_;
  std::vector<std::size_t> order_;  // of queues, the one heard last in front
  std::size_t asked_ = 0;
  bool keeps_coming_ = false;  // the last two times by the same queue
  proto::Time looked_at_{};    // when all were asked or looked at
};

}  // namespace hawser::engine
