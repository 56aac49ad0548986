// SPDX-License-Identifier: Apache-2.0
// When a sender sends again, and which packets: the first of the three things in which baselines
// differ.
#pragma once

#include <limits>

#include "sim/baseline/ack.hpp"
#include "sim/baseline/scoreboard.hpp"

namespace hawser::baseline {

class Recovery {
 public:
  static constexpr std::uint32_t kUnlimited = std::numeric_limits<std::uint32_t>::max();

  virtual ~Recovery() = default;

  // Whether the receiver keeps packets that come before their turn. Otherwise it discards them, and
  // says so once until the expected packet has come.
  [[nodiscard]] virtual bool keeps_early() const = 0;
  // The most packets from the oldest unacknowledged one on: its bitmaps cover that many.
  [[nodiscard]] virtual std::uint32_t most_span() const { return kUnlimited; }

  // The board knows already that the packet was sent.
  virtual void on_sent(const Scoreboard& board, fabric::Instant now, std::uint32_t number) = 0;
  // Records on the board which packets the ack acknowledges or shows to be lost. Returns how many
  // are newly acknowledged.
  virtual std::uint32_t on_ack(Scoreboard& board, fabric::Instant now, const Ack& ack) = 0;
  // When on_deadline is due if nothing happens before; kNever if no timer is armed.
  [[nodiscard]] virtual fabric::Instant deadline(const Scoreboard& board) const = 0;
  // Returns false if the connection has failed, for want of acks.
  [[nodiscard]] virtual bool on_deadline(Scoreboard& board, fabric::Instant now) = 0;
  // The connection begins again elsewhere, from the oldest unacknowledged packet.
  virtual void restart(Scoreboard& board, fabric::Instant now) = 0;
};

}  // namespace hawser::baseline
