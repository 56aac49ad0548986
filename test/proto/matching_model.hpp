// SPDX-License-Identifier: Apache-2.0
// MPI's matching rule spelled out: two queues in order, in which the first entry that fits matches.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>

#include "proto/message/matching.hpp"

namespace hawser::test {

inline bool fits(const proto::UnexpectedEntry& message, PeerId peer, std::uint16_t channel,
                 std::uint64_t tag, std::uint64_t mask) {
  return (peer == kAnyPeer || peer == message.peer) && channel == message.channel &&
         (tag & mask) == (message.tag & mask);
}

struct MatchingModel {
  std::deque<proto::PostedReceive> posted;
  std::deque<proto::UnexpectedEntry> held;
  std::uint64_t ages = 0;

  std::optional<proto::UnexpectedEntry> post(const proto::PostedReceive& receive) {
    const auto found = std::ranges::find_if(held, [&](const proto::UnexpectedEntry& message) {
      return fits(message, receive.peer, receive.channel, receive.tag, receive.mask);
    });
    if (found == held.end()) {
      posted.push_back(receive);
      return std::nullopt;
    }
    const proto::UnexpectedEntry message = *found;
    held.erase(found);
    return message;
  }
  std::optional<proto::PostedReceive> arrive(const proto::UnexpectedEntry& message) {
    const auto found = std::ranges::find_if(posted, [&](const proto::PostedReceive& receive) {
      return fits(message, receive.peer, receive.channel, receive.tag, receive.mask);
    });
    if (found != posted.end()) {
      const proto::PostedReceive receive = *found;
      posted.erase(found);
      return receive;
    }
    // Entries are in the order of age: a message that was held before returns to its place.
    proto::UnexpectedEntry entry = message;
    if (entry.age == 0) entry.age = ++ages;
    held.insert(
        std::ranges::find_if(
            held, [&](const proto::UnexpectedEntry& other) { return other.age > entry.age; }),
        entry);
    return std::nullopt;
  }
  // Whether a posted receive has this index.
  [[nodiscard]] bool uses(std::uint32_t index) const {
    return std::ranges::any_of(posted, [&](const proto::PostedReceive& receive) {
      return static_cast<std::uint32_t>(static_cast<std::uint64_t>(receive.operation)) == index;
    });
  }
  [[nodiscard]] bool holds(std::uint32_t rx_message) const {
    return std::ranges::any_of(held, [&](const proto::UnexpectedEntry& message) {
      return message.rx_message == rx_message;
    });
  }
};

}  // namespace hawser::test
