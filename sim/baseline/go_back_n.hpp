// SPDX-License-Identifier: Apache-2.0
// The loss recovery of NIC hardware for a reliable connection (RC) of InfiniBand and RoCE. The
// receiver takes packets in their order only, and says once, by a NAK, that one is missing. The
// sender goes back to that packet and sends all packets from there on again. It also goes back if
// the oldest packet is not acknowledged for the timeout. It gives the connection up after more than
// `retries` timeouts without progress.
// (InfiniBand Architecture Specification 1, 9.7.5 to 9.7.7. Linux's rxe also sends a second NAK
// only after the expected packet has come: rxe_resp.c, `sent_psn_nak`.)
#pragma once

#include "sim/baseline/recovery.hpp"

namespace hawser::baseline {

// The spec's timer: 4.096 us times 2^exponent. Real ones may take up to four times as long.
[[nodiscard]] constexpr fabric::Span ack_timeout(unsigned exponent) {
  return fabric::nanoseconds(std::int64_t{4096} << exponent);
}

class GoBackN final : public Recovery {
 public:
  struct Constants {
    fabric::Span timeout = ack_timeout(20);
    std::uint32_t retries = 7;
  };
  explicit GoBackN(const Constants& constants) : constants_(constants), left_(constants.retries) {}

  [[nodiscard]] bool keeps_early() const override { return false; }

  void on_sent(const Scoreboard& board, fabric::Instant now, std::uint32_t number) override {
    if (number == board.oldest()) since_ = now;
  }

  std::uint32_t on_ack(Scoreboard& board, fabric::Instant now, const Ack& ack) override {
    const std::uint32_t news = board.acknowledge_below(ack.expected);
    if (news > 0) {
      since_ = now;
      left_ = constants_.retries;
    }
    if (ack.is_early != 0 && ack.expected == board.oldest()) board.lose_all();
    return news;
  }

  [[nodiscard]] fabric::Instant deadline(const Scoreboard& board) const override {
    return board.flying() > 0 ? since_ + constants_.timeout : fabric::kNever;
  }

  [[nodiscard]] bool on_deadline(Scoreboard& board, fabric::Instant now) override {
    if (left_ == 0) return false;
    --left_;
    since_ = now;
    board.lose_all();
    return true;
  }

  void restart(Scoreboard& board, fabric::Instant now) override {
    left_ = constants_.retries;
    since_ = now;
    board.lose_all();
  }

 private:
  Constants constants_;
  std::uint32_t left_;
  fabric::Instant since_{};  // the last progress, or sending of the oldest
};

}  // namespace hawser::baseline
