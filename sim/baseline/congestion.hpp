// SPDX-License-Identifier: Apache-2.0
// How much a connection may have in flight: the second of the three things in which baselines
// differ.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sim/baseline/scoreboard.hpp"

namespace hawser::baseline {

class Congestion {
 public:
  // The facts that an ack brings for congestion control.
  struct Sample {
    fabric::Instant now{};
    fabric::Span round_trip{};  // of the packet that it answers
    std::uint32_t news = 0;     // packets newly acknowledged
    std::uint32_t flying = 0;   // before that
    std::uint64_t lost = 0;     // packets that it showed to be lost
    bool is_marked = false;
    bool is_full = true;  // that packet
  };

  virtual ~Congestion() = default;

  // Whether the packet that is due may be sent. A retransmission always may.
  [[nodiscard]] virtual bool allows(const Scoreboard& board) const = 0;
  virtual void on_ack(const Sample& sample) = 0;
  virtual void on_timeout(std::uint64_t lost) = 0;
};

// A fixed number of packets: the delay-bandwidth product or a multiple of it.
class FixedWindow final : public Congestion {
 public:
  enum class Counts : std::uint8_t {
    span,    // from the oldest unacknowledged packet on, for senders that know only of that one
    flying,  // packets in flight
  };
  FixedWindow(std::uint32_t packets, Counts counts)
      : packets_(std::max(packets, 1u)), counts_(counts) {}

  [[nodiscard]] bool allows(const Scoreboard& board) const override {
    const std::uint32_t used = counts_ == Counts::span ? board.span() : board.flying();
    return board.has_lost() || used < packets_;
  }
  void on_ack(const Sample&) override {}
  void on_timeout(std::uint64_t) override {}

 private:
  std::uint32_t packets_;
  Counts counts_;
};

}  // namespace hawser::baseline
