// SPDX-License-Identifier: Apache-2.0
// UCCL's loss recovery: github.com/uccl-project/uccl at da914a20, collective/rdma/transport.cc
// (uc_rx_ack, __retransmit_for_flow) and transport_config.h.
//
// Acks carry the expected packet and a bitmap of those that have come beyond it. The 32nd ack in a
// row with the same expected packet makes the sender resend all that is missing below the highest
// packet of the bitmap. Each further such ack does so too, however often these were sent already.
// The timer runs from the last progress or retransmission. When it expires, the sender resends what
// the newest bitmap lacks, or the oldest packet if that bitmap is empty.
//
// UCCL counts chunks of 32 to 64 KB, each on one path; here a packet is a chunk.
#pragma once

#include "sim/baseline/recovery.hpp"

namespace hawser::baseline {

class Uccl final : public Recovery {
 public:
  struct Constants {
    std::uint32_t duplicate_acks = 32;                 // ROCE_DUP_ACK_THRES
    fabric::Span timeout = fabric::microseconds(500);  // kRTOUSec, with kConstRTO
    std::uint32_t most_span = Ack::kBits;              // kSackBitmapSize
  };
  explicit Uccl(const Constants& constants) : constants_(constants) {}

  [[nodiscard]] bool keeps_early() const override { return true; }
  [[nodiscard]] std::uint32_t most_span() const override { return constants_.most_span; }

  void on_sent(const Scoreboard& board, fabric::Instant now, std::uint32_t) override {
    if (board.span() == 1) since_ = now;  // it was not armed
  }

  std::uint32_t on_ack(Scoreboard& board, fabric::Instant now, const Ack& ack) override {
    if (ack.expected < board.oldest()) return 0;  // an old one
    const bool is_duplicate = ack.expected == board.oldest();
    std::uint32_t news = board.acknowledge_below(ack.expected);
    for (std::uint32_t i = 0; i < Ack::kBits; ++i) {
      if (ack.has(i)) news += board.acknowledge(ack.expected + i);
    }
    newest_ = ack;
    if (!is_duplicate) {
      since_ = now;
      duplicates_ = 0;
    } else if (++duplicates_ >= constants_.duplicate_acks) {
      resend_missing(board, now);
    }
    return news;
  }

  [[nodiscard]] fabric::Instant deadline(const Scoreboard& board) const override {
    return board.flying() > 0 ? since_ + constants_.timeout : fabric::kNever;
  }

  [[nodiscard]] bool on_deadline(Scoreboard& board, fabric::Instant now) override {
    resend_missing(board, now);
    return true;
  }

  void restart(Scoreboard& board, fabric::Instant now) override {
    duplicates_ = 0;
    since_ = now;
    board.lose_all();
  }

 private:
  void resend_missing(Scoreboard& board, fabric::Instant now) {
    since_ = now;
    std::uint32_t beyond = newest_.count();
    if (beyond == 0) return board.lose(board.oldest());
    for (std::uint32_t i = 0; beyond > 0; ++i) {
      if (newest_.has(i)) {
        --beyond;
      } else {
        board.lose(newest_.expected + i);
      }
    }
  }

  Constants constants_;
  fabric::Instant since_{};
  Ack newest_;
  std::uint32_t duplicates_ = 0;
};

}  // namespace hawser::baseline
