// SPDX-License-Identifier: Apache-2.0
// Helpers with which a fault hook recognizes packets.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "engine/driver/fault/fault_nic.hpp"
#include "proto/wire/packet.hpp"

namespace hawser::test {

// Parses a packet that is being sent, without its payload.
inline proto::wire::PacketView view_of(const engine::FaultPacket& packet) {
  proto::wire::PacketView view;
  const auto bad = proto::wire::parse(packet.header, packet.queue, false, view);
  HAWSER_ASSERT(!bad && packet.direction == engine::Direction::tx);
  return view;
}

// The number of the packet's message, as on the wire, or nothing if it has none.
inline std::optional<std::uint32_t> message_of(const engine::FaultPacket& packet) {
  const proto::wire::PacketView view = view_of(packet);
  if (view.fragment == nullptr) return std::nullopt;
  return view.fragment->message;
}

// Whether a packet that is being sent carries a block of this type, such as a GrantBlock.
template <class Block>
bool carries(const engine::FaultPacket& packet) {
  if (packet.direction != engine::Direction::tx) return false;
  bool found = false;
  view_of(packet).blocks.visit([&](const Block&) { found = true; });
  return found;
}

inline bool has_status(const engine::FaultPacket& packet, proto::wire::MessageStatus wanted) {
  if (packet.direction != engine::Direction::tx) return false;
  bool found = false;
  view_of(packet).blocks.visit([&](const proto::wire::StatusView& view) {
    for (const auto& entry : view.entries) found |= entry.status == wanted;
  });
  return found;
}

// A hook that drops `left` of the sent packets that `which` selects.
struct Loss {
  std::function<bool(std::uint32_t node, const engine::FaultPacket&)> which;
  int left = 1;
  int lost = 0;
  std::optional<engine::Fate> operator()(std::uint32_t node, std::uint32_t,
                                         const engine::FaultPacket& packet) {
    if (packet.direction != engine::Direction::tx || left == 0 || !which(node, packet)) return {};
    --left;
    ++lost;
    return engine::Fate{.drop = true};
  }
};

}  // namespace hawser::test
