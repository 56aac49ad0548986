// SPDX-License-Identifier: Apache-2.0
// What a sender knows of a connection's packets, which are numbered from 0 on in the order in which
// they are first sent. A packet is in flight from when it is sent until it is acknowledged or
// declared lost. Lost packets are sent again, the lowest number first, before anything new.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "sim/fabric/instant.hpp"

namespace hawser::baseline {

class Scoreboard {
 public:
  // Adds this many packets to those that are to be sent.
  void extend(std::uint32_t packets) { end_ += packets; }

  [[nodiscard]] std::uint32_t oldest() const { return oldest_; }         // unacknowledged
  [[nodiscard]] std::uint32_t next() const { return oldest_ + span(); }  // never sent yet
  [[nodiscard]] std::uint32_t end() const { return end_; }
  // From the oldest unacknowledged packet to the newest that was sent.
  [[nodiscard]] std::uint32_t span() const { return static_cast<std::uint32_t>(sent_.size()); }
  [[nodiscard]] std::uint32_t flying() const { return flying_; }
  [[nodiscard]] bool has_lost() const { return lost_ > 0; }
  [[nodiscard]] std::uint64_t losses() const { return losses_; }  // declared in all

  [[nodiscard]] bool is_acked(std::uint32_t number) const;
  // The number past the highest packet acknowledged beyond the oldest; the oldest if there is none.
  [[nodiscard]] std::uint32_t acked_end() const;
  // The highest number below which each packet has at least `count` acknowledged ones above it; the
  // oldest if there are too few. `count` is at least 1.
  [[nodiscard]] std::uint32_t overtaken_end(std::uint32_t count) const;

  // The packet that is to be sent next, if the window has room for it.
  [[nodiscard]] std::optional<std::uint32_t> due() const;

  // The packet that was due has been sent. Returns how often it was sent before.
  std::uint32_t on_sent(std::uint32_t number, fabric::Instant now);
  [[nodiscard]] fabric::Instant sent_at(std::uint32_t number) const;
  // Both return how many packets are newly acknowledged.
  std::uint32_t acknowledge(std::uint32_t number);
  std::uint32_t acknowledge_below(std::uint32_t number);
  // Declares a packet lost; does nothing if it is not in flight.
  void lose(std::uint32_t number);
  void lose_all();

 private:
  enum class State : std::uint8_t { flying, lost, acked };
  struct Sent {
    fabric::Instant at{};
    std::uint32_t times = 1;
    State state = State::flying;
  };
  [[nodiscard]] bool is_sent(std::uint32_t number) const {
    return number >= oldest_ && number - oldest_ < span();
  }
  void forget_acked();

  std::deque<Sent> sent_;  // from the oldest on
  std::uint32_t oldest_ = 0;
  std::uint32_t end_ = 0;
  std::uint32_t flying_ = 0;
  std::uint32_t lost_ = 0;
  std::uint32_t acked_end_ = 0;
  mutable std::uint32_t first_lost_ = 0;  // no lower number is lost
  std::uint64_t losses_ = 0;
};

}  // namespace hawser::baseline
