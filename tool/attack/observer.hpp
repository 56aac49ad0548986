// SPDX-License-Identifier: Apache-2.0
// Sees the datagrams of this host: a sample of them, through a packet socket.
#pragma once

#include <netinet/in.h>

#include <cstddef>
#include <optional>
#include <span>

#include "engine/descriptor.hpp"

namespace hawser::tool {

class Observer {
 public:
  // Throws InputError if this process may not see them.
  Observer();

  struct Sight {
    sockaddr_in to{};
    std::span<const std::byte> payload;  // in the given room
  };
  // The next UDP datagram over IPv4 (one that was sent in segments counts as one); nothing if none
  // is there.
  [[nodiscard]] std::optional<Sight> next(std::span<std::byte> room);

 private:
  engine::Descriptor socket_;
};

// Parses the bytes of an IPv4 packet; nothing if it is no whole UDP datagram.
[[nodiscard]] std::optional<Observer::Sight> parse_ipv4(std::span<const std::byte> packet);

}  // namespace hawser::tool
