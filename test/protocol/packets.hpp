// What a fault hook needs to know a packet by.
#pragma once

#include <optional>

#include "engine/driver/fault_nic.hpp"
#include "proto/wire.hpp"

namespace hawser::test {

// Of a packet that is being sent; without its payload.
inline proto::wire::PacketView view_of(const engine::FaultPacket& packet) {
  proto::wire::PacketView view;
  const auto bad = proto::wire::parse(packet.header, packet.queue, false, view);
  HAWSER_ASSERT(!bad && packet.direction == engine::Direction::tx);
  return view;
}

// The number of the message that the packet belongs to, as on the wire; nothing if it has none.
inline std::optional<std::uint32_t> message_of(const engine::FaultPacket& packet) {
  const proto::wire::PacketView view = view_of(packet);
  if (view.fragment == nullptr) return std::nullopt;
  return view.fragment->message;
}

}  // namespace hawser::test
