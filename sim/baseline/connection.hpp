// SPDX-License-Identifier: Apache-2.0
// Both ends of a baseline's connection. All that a host sends to another goes over one connection,
// message after message, and its packets are numbered through.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "sim/baseline/congestion.hpp"
#include "sim/baseline/reception.hpp"
#include "sim/baseline/recovery.hpp"
#include "sim/baseline/spray.hpp"

namespace hawser::baseline {

struct Message {
  std::uint32_t flow = 0;   // of the matrix
  std::uint32_t first = 0;  // packet
  std::uint32_t packets = 0;
  std::uint64_t bytes = 0;
  std::uint32_t received = 0;  // packets
};

struct Connection {
  static constexpr std::uint32_t kNoPort = 0xffffffffu;

  std::uint32_t from = 0;  // nodes
  std::uint32_t to = 0;
  Scoreboard board;
  std::unique_ptr<Recovery> recovery;
  std::unique_ptr<Congestion> congestion;
  std::unique_ptr<Spray> spray;
  Reception reception;
  std::vector<Message> messages;
  std::uint32_t ended = 0;                 // messages, of the first ones
  std::optional<Way> way;                  // of the next packet, once one is chosen
  std::uint32_t waits_at = kNoPort;        // the port at which it waits for its turn
  fabric::Instant timer = fabric::kNever;  // the event that counts; older ones mean nothing
  std::uint32_t moves = 0;                 // since the last progress
  bool is_moving = false;                  // while it moves it neither sends nor hears

  // The number of the next packet, if it may be sent now.
  [[nodiscard]] std::optional<std::uint32_t> may_send() const {
    if (is_moving || !congestion->allows(board)) return std::nullopt;
    const std::optional<std::uint32_t> due = board.due();
    if (due && *due == board.next() && board.span() >= recovery->most_span()) return std::nullopt;
    return due;
  }
  [[nodiscard]] Message& message_of(std::uint32_t number) {
    return *std::prev(std::ranges::upper_bound(messages, number, {}, &Message::first));
  }
};

}  // namespace hawser::baseline
