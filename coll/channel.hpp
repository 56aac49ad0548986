// SPDX-License-Identifier: Apache-2.0
// The router, peers and identifiers with which a communicator posts its operations.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "coll/layout.hpp"
#include "coll/router.hpp"
#include "hawser/engine.hpp"

namespace hawser::coll {

struct Channel {
  Router& router;
  std::span<const PeerId> peers;  // by rank
  std::uint32_t id = 0;
  Rank rank = 0;
  std::uint64_t route = 0;  // the upper 16 bits of every user_data

  [[nodiscard]] Rank ranks() const noexcept { return static_cast<Rank>(peers.size()); }
  [[nodiscard]] Endpoint& endpoint() const noexcept { return router.endpoint(); }
  [[nodiscard]] std::uint16_t number() const noexcept { return channel_of(id); }
  // Whether this end has closed its endpoint. Operations with a peer that it has disconnected end
  // with `endpoint_closed`, too.
  [[nodiscard]] bool is_closed() const {
    Envelope envelope;
    return endpoint().probe({.peer = kAnyPeer,
                             .channel = number(),
                             .tag = vote_tag(id),
                             .owner = ChannelOwner::collectives},
                            envelope) == Status::endpoint_closed;
  }
  // Strangers have no rank.
  [[nodiscard]] std::optional<Rank> rank_of(PeerId peer) const noexcept {
    for (Rank one = 0; one < ranks(); ++one) {
      if (one != rank && peers[one] == peer) return one;
    }
    return std::nullopt;
  }
};

// The lower 48 bits of user_data, which identify one of the communicator's operations.
struct Mark {
  enum class Kind : std::uint8_t { send, receive, abort_send, listener, agreement, message, vote };
  Kind kind = Kind::send;
  std::uint32_t slot = 0;   // of the execution, or of the message, or a rank
  std::uint32_t index = 0;  // within the window, or number of the listener, or its kind

  [[nodiscard]] constexpr std::uint64_t pack() const noexcept {
    return static_cast<std::uint64_t>(slot & 0xffff) << 24 |
           static_cast<std::uint64_t>(kind) << 16 | (index & 0xffff);
  }
  [[nodiscard]] static constexpr Mark unpack(std::uint64_t user_data) noexcept {
    return {.kind = static_cast<Kind>(user_data >> 16 & 0xff),
            .slot = static_cast<std::uint32_t>(user_data >> 24 & 0xffff),
            .index = static_cast<std::uint32_t>(user_data & 0xffff)};
  }
};

}  // namespace hawser::coll
