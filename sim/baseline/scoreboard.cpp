// SPDX-License-Identifier: Apache-2.0
#include "sim/baseline/scoreboard.hpp"

#include <algorithm>

#include "proto/base/assert.hpp"

namespace hawser::baseline {

bool Scoreboard::is_acked(std::uint32_t number) const {
  return number < oldest_ || (is_sent(number) && sent_[number - oldest_].state == State::acked);
}

std::uint32_t Scoreboard::acked_end() const { return std::max(acked_end_, oldest_); }

std::uint32_t Scoreboard::overtaken_end(std::uint32_t count) const {
  for (std::uint32_t number = acked_end(); number > oldest_; --number) {
    if (is_acked(number - 1) && --count == 0) return number - 1;
  }
  return oldest_;
}

std::optional<std::uint32_t> Scoreboard::due() const {
  if (lost_ > 0) {
    std::uint32_t number = std::max(first_lost_, oldest_);
    while (sent_[number - oldest_].state != State::lost) ++number;
    first_lost_ = number;
    return number;
  }
  if (next() < end_) return next();
  return std::nullopt;
}

std::uint32_t Scoreboard::on_sent(std::uint32_t number, fabric::Instant now) {
  ++flying_;
  if (number == next()) {
    sent_.push_back({.at = now});
    return 0;
  }
  Sent& sent = sent_[number - oldest_];
  HAWSER_ASSERT(sent.state == State::lost);
  --lost_;
  sent.at = now;
  sent.state = State::flying;
  return sent.times++;
}

fabric::Instant Scoreboard::sent_at(std::uint32_t number) const {
  HAWSER_ASSERT(is_sent(number));
  return sent_[number - oldest_].at;
}

std::uint32_t Scoreboard::acknowledge(std::uint32_t number) {
  if (!is_sent(number)) return 0;
  Sent& sent = sent_[number - oldest_];
  if (sent.state == State::acked) return 0;
  --(sent.state == State::lost ? lost_ : flying_);
  sent.state = State::acked;
  acked_end_ = std::max(acked_end_, number + 1);
  forget_acked();
  return 1;
}

std::uint32_t Scoreboard::acknowledge_below(std::uint32_t number) {
  HAWSER_ASSERT(number <= next(), "an ack of a packet that was never sent");
  std::uint32_t news = 0;
  while (oldest_ < number) news += acknowledge(oldest_);
  return news;
}

void Scoreboard::forget_acked() {
  while (!sent_.empty() && sent_.front().state == State::acked) {
    sent_.pop_front();
    ++oldest_;
  }
}

void Scoreboard::lose(std::uint32_t number) {
  if (!is_sent(number)) return;
  Sent& sent = sent_[number - oldest_];
  if (sent.state != State::flying) return;
  sent.state = State::lost;
  --flying_;
  ++lost_;
  ++losses_;
  first_lost_ = std::min(first_lost_, number);
}

void Scoreboard::lose_all() {
  for (std::uint32_t number = oldest_; number < next(); ++number) lose(number);
}

}  // namespace hawser::baseline
