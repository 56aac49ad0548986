// SPDX-License-Identifier: Apache-2.0
// Hawser's own congestion window, unchanged, fed with whole round trips: a NIC answers at once, so
// there is no residence in hosts to subtract. Hawser has one window for each path; here a
// connection has one.
//
// The window does not hold retransmissions back. These recoveries don't know of every packet that
// is lost, so such packets occupy the window, and a retransmission would wait for that room for
// ever.
#pragma once

#include "hawser/tunables.hpp"
#include "proto/path/delay_window.hpp"
#include "sim/baseline/congestion.hpp"

namespace hawser::baseline {

class HawserWindow final : public Congestion {
 public:
  explicit HawserWindow(std::uint32_t payload, const Tunables& tunables = {})
      : payload_(payload),
        window_({.packet_bytes = payload,
                 .initial_packets = tunables.initial_window_packets,
                 .delay_target = proto::microseconds(tunables.delay_target_us)}) {}

  [[nodiscard]] bool allows(const Scoreboard& board) const override {
    return board.has_lost() || (std::uint64_t{board.flying()} + 1) * payload_ <= window_.bytes();
  }

  void on_ack(const Sample& sample) override {
    const proto::Duration delay{sample.round_trip.ps / 1000};
    round_ = round_ == proto::Duration{} ? delay : round_ + (delay - round_) / 8;  // as RFC 6298
    window_.on_lost(sample.lost);
    window_.on_ack({.now = proto::Time{sample.now.ps / 1000},
                    .acked_bytes = std::uint64_t{sample.news} * payload_,
                    .in_flight_before = std::uint64_t{sample.flying} * payload_,
                    .fabric_delay = delay,
                    .has_delay = true,
                    .is_large = sample.is_full,
                    .marked_packets = sample.is_marked ? 1u : 0u,
                    .acked_packets = sample.news,
                    .round = round_});
  }
  void on_timeout(std::uint64_t lost) override { window_.on_lost(lost); }

  [[nodiscard]] std::uint64_t bytes() const { return window_.bytes(); }

 private:
  std::uint32_t payload_;
  proto::DelayWindow window_;
  proto::Duration round_{};
};

}  // namespace hawser::baseline
