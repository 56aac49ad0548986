// SPDX-License-Identifier: Apache-2.0
// The plainest repair over unreliable datagrams: each packet is acknowledged by itself, and sent
// again when its own timer expires. No other event shows a loss.
#pragma once

#include <deque>

#include "sim/baseline/recovery.hpp"

namespace hawser::baseline {

class FixedTimer final : public Recovery {
 public:
  struct Constants {
    fabric::Span timeout = fabric::microseconds(5000);  // eRPC's kRpcRTOUs, src/tweakme.h
    std::uint32_t retries = 0;  // timeouts without an ack in between; 0: no limit
  };
  explicit FixedTimer(const Constants& constants) : constants_(constants) {}

  [[nodiscard]] bool keeps_early() const override { return true; }

  void on_sent(const Scoreboard&, fabric::Instant now, std::uint32_t number) override {
    timers_.push_back({now + constants_.timeout, number});
  }

  std::uint32_t on_ack(Scoreboard& board, fabric::Instant, const Ack& ack) override {
    const std::uint32_t news =
        board.acknowledge_below(ack.expected) + board.acknowledge(ack.number);
    if (news > 0) rounds_ = 0;
    while (!timers_.empty() && board.is_acked(timers_.front().number)) timers_.pop_front();
    return news;
  }

  [[nodiscard]] fabric::Instant deadline(const Scoreboard&) const override {
    return timers_.empty() ? fabric::kNever : timers_.front().at;
  }

  [[nodiscard]] bool on_deadline(Scoreboard& board, fabric::Instant now) override {
    bool is_oldest = false;
    while (!timers_.empty() && timers_.front().at <= now) {
      const std::uint32_t number = timers_.front().number;
      timers_.pop_front();
      board.lose(number);
      is_oldest = is_oldest || number == board.oldest();
    }
    if (is_oldest) ++rounds_;
    return constants_.retries == 0 || rounds_ <= constants_.retries;
  }

  void restart(Scoreboard& board, fabric::Instant) override {
    rounds_ = 0;
    timers_.clear();
    board.lose_all();
  }

 private:
  struct Timer {
    fabric::Instant at{};
    std::uint32_t number = 0;
  };
  Constants constants_;
  std::deque<Timer> timers_;  // each packet's latest one, in the order of their time
  std::uint32_t rounds_ = 0;
};

}  // namespace hawser::baseline
