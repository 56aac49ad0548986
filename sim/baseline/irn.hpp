// SPDX-License-Identifier: Apache-2.0
// IRN's loss recovery: R. Mittal et al., "Revisiting Network Support for RDMA", SIGCOMM 2018, 3.1
// and 4.1. Where the text leaves room, the recovery does as its authors' modules do
// (github.com/NetSys/irn-vivado-hls, irn_sender/{receiveAck,txFree,timeout}.cpp).
//
// The receiver keeps everything. It answers an early packet with a NACK that names this packet and
// the expected one. A NACK or a timeout begins recovery: the sender resends the expected packet,
// then each packet missing below one that a NACK has named, each once. An ack for a part of them
// makes the sender resend the next expected packet, unless it did so already. Recovery is over when
// all packets sent before the last retransmission are acknowledged. The timeout is short while so
// few packets are in flight that loss of all of them would bring no NACK.
//
// At most the delay-bandwidth product is in flight, counted from the oldest unacknowledged packet
// (BDP-FC, 3.2): the bitmaps are that long.
#pragma once

#include <algorithm>

#include "sim/baseline/recovery.hpp"

namespace hawser::baseline {

class Irn final : public Recovery {
 public:
  struct Constants {
    fabric::Span low = fabric::microseconds(100);   // 4.1
    fabric::Span high = fabric::microseconds(320);  // 4.1
    std::uint32_t few = 3;                          // 4.1; `quickTimeoutCap`
    std::uint32_t most_span = kUnlimited;           // packets: the delay-bandwidth product
    // A packet is missing when this many packets beyond it have come. More than 1 is for packets
    // that take many ways, as section 7 proposes.
    std::uint32_t overtaken_by = 1;
  };
  explicit Irn(const Constants& constants) : constants_(constants) {}

  [[nodiscard]] bool keeps_early() const override { return true; }
  [[nodiscard]] std::uint32_t most_span() const override { return constants_.most_span; }

  void on_sent(const Scoreboard& board, fabric::Instant now, std::uint32_t number) override {
    if (number == board.oldest()) since_ = now;
  }

  std::uint32_t on_ack(Scoreboard& board, fabric::Instant now, const Ack& ack) override {
    const std::uint32_t before = board.oldest();
    std::uint32_t news = board.acknowledge_below(ack.expected);
    if (ack.is_early != 0) news += board.acknowledge(ack.number);
    if (board.oldest() > before) since_ = now;
    if (recovers_ && board.oldest() > recover_) recovers_ = false;
    if (recovers_ && board.oldest() > before && resent_ < board.oldest() && by_order()) {
      resend(board, board.oldest());
    }
    if (ack.is_early != 0 || recovers_) resend_missing(board);
    return news;
  }

  [[nodiscard]] fabric::Instant deadline(const Scoreboard& board) const override {
    if (board.flying() == 0) return fabric::kNever;
    return since_ + (board.span() <= constants_.few ? constants_.low : constants_.high);
  }

  [[nodiscard]] bool on_deadline(Scoreboard& board, fabric::Instant now) override {
    since_ = now;
    timed_out_ = true;
    resend(board, board.oldest());
    resend_missing(board);
    return true;
  }

  void restart(Scoreboard& board, fabric::Instant now) override {
    recovers_ = false;
    since_ = now;
    board.lose_all();
  }

 private:
  // An ack that ends within the recovery shows the next loss only where packets keep their order,
  // or where nothing came of the packets sent since.
  [[nodiscard]] bool by_order() const { return constants_.overtaken_by == 1 || timed_out_; }

  void resend(Scoreboard& board, std::uint32_t number) {
    board.lose(number);
    recovers_ = true;
    resent_ = number;
    recover_ = board.next() - 1;
  }

  // Resends the packets that are missing beyond those already resent, as far as a NACK has shown
  // it.
  void resend_missing(Scoreboard& board) {
    const std::uint32_t end = board.overtaken_end(constants_.overtaken_by);
    if (end == board.oldest()) return;
    if (!recovers_) {
      timed_out_ = false;
      resend(board, board.oldest());
    }
    for (std::uint32_t n = std::max(resent_ + 1, board.oldest()); n < end; ++n) {
      if (!board.is_acked(n)) resend(board, n);
    }
  }

  Constants constants_;
  fabric::Instant since_{};
  bool recovers_ = false;
  bool timed_out_ = false;     // whether that began the recovery
  std::uint32_t resent_ = 0;   // the highest that was sent again in this recovery
  std::uint32_t recover_ = 0;  // the packet whose acknowledgement ends the recovery
};

}  // namespace hawser::baseline
