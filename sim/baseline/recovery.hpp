// SPDX-License-Identifier: Apache-2.0
// When a sender sends again, and what: the first of the three things in which baselines differ.
#pragma once

#include <limits>

#include "sim/baseline/ack.hpp"
#include "sim/baseline/scoreboard.hpp"

namespace hawser::baseline {

class Recovery {
 public:
  static constexpr std::uint32_t kUnlimited = std::numeric_limits<std::uint32_t>::max();

  virtual ~Recovery() = default;

  // Whether the receiver keeps what comes before its turn; else it discards it, and says so once
  // until what it expects has come.
  [[nodiscard]] virtual bool keeps_early() const = 0;
  // The most packets from the oldest that is not acknowledged on: what its bitmaps cover.
  [[nodiscard]] virtual std::uint32_t most_span() const { return kUnlimited; }

  // The board knows of it already.
  virtual void on_sent(const Scoreboard& board, fabric::Instant now, std::uint32_t number) = 0;
  // Acknowledges and loses on the board what follows; returns of how many packets that is news.
  virtual std::uint32_t on_ack(Scoreboard& board, fabric::Instant now, const Ack& ack) = 0;
  // When on_deadline is due if nothing happens before; kNever if nothing is.
  [[nodiscard]] virtual fabric::Instant deadline(const Scoreboard& board) const = 0;
  // False if the connection has failed, for want of acks.
  [[nodiscard]] virtual bool on_deadline(Scoreboard& board, fabric::Instant now) = 0;
  // The connection begins again elsewhere, from the oldest that is not acknowledged.
  virtual void restart(Scoreboard& board, fabric::Instant now) = 0;
};

}  // namespace hawser::baseline
