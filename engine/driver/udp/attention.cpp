// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/udp/attention.hpp"

#include <algorithm>

namespace hawser::engine {

using proto::Time;

void Attention::add() {
  order_.push_back(queues_.size());
  queues_.emplace_back();
}

std::size_t Attention::note_heard(Time now) {
  std::size_t heard = 0;
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    Queue& queue = queues_[i];
    if (!queue.heard_in_turn) continue;
    ++heard;
    queue.heard_in_turn = false;
    queue.warm_until = now + kWarm;  // it was asked now, and may hold more that poll did not see
    keeps_coming_ = heard == 1 && order_.front() == i;
    const auto at = std::find(order_.begin(), order_.end(), i);
    std::rotate(order_.begin(), at, at + 1);
  }
  return heard;
}

bool Attention::begin_turn(Time now, Time due) {
  const std::size_t most = note_heard(now) > 0 ? queues_.size() : keeps_coming_ ? 1 : 0;
  for (Queue& queue : queues_) queue.asks = false;
  asked_ = 0;
  for (const std::size_t index : order_) {
    Queue& queue = queues_[index];
    if (asked_ == most || queue.warm_until <= now) break;
    queue.asks = true;
    ++asked_;
  }
  const bool looks = asked_ == 0 || now >= due || now - looked_at_ >= kLookInterval;
  if (looks || asked_ == queues_.size()) looked_at_ = now;
  return looks && asked_ < queues_.size();
}

}  // namespace hawser::engine
