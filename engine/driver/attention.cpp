#include "engine/driver/attention.hpp"

#include <algorithm>

namespace hawser::engine {

using proto::Time;

void Attention::add() {
  order_.push_back(queues_.size());
  queues_.emplace_back();
}

bool Attention::note_heard() {
  bool any = false;
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    Queue& queue = queues_[i];
    if (!queue.heard_in_turn) continue;
    any = true;
    queue.heard_in_turn = false;
    queue.warm_until = turn_at_ + kWarm;
    const auto at = std::find(order_.begin(), order_.end(), i);
    std::rotate(order_.begin(), at, at + 1);
  }
  return any;
}

bool Attention::begin_turn(Time now, Time due) {
  const std::size_t guesses = note_heard() ? queues_.size() : kGuesses;
  turn_at_ = now;
  for (Queue& queue : queues_) queue.asks = false;
  asked_ = 0;
  for (const std::size_t index : order_) {
    Queue& queue = queues_[index];
    if (asked_ == guesses || queue.warm_until <= now) break;
    queue.asks = true;
    ++asked_;
  }
  const bool looks = asked_ == 0 || now >= due || now - looked_at_ >= kLookInterval;
  if (looks || asked_ == queues_.size()) looked_at_ = now;
  return looks && asked_ < queues_.size();
}

}  // namespace hawser::engine
