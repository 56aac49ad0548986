// SPDX-License-Identifier: Apache-2.0
// The parts of a peer that belong to the messages in both directions.
//
// Plain data: the sources of this folder hold the rules.
#pragma once

#include <cstdint>

#include "proto/base/list.hpp"
#include "proto/base/slab.hpp"
#include "proto/message/channel_order.hpp"
#include "proto/message/incoming_message.hpp"
#include "proto/message/message_table.hpp"
#include "proto/message/one_sided_send.hpp"
#include "proto/message/outgoing_message.hpp"

namespace hawser::proto {

// The operations on a peer's memory.
struct PeerOneSided {
  IndexList<OneSidedSend, &OneSidedSend::fetch_link> fetches;  // that await their replies
  OrderedChannels channels;  // on which any are under way, or one has failed
};

// Messages to the peer.
struct PeerSends {
  std::uint64_t next_number = 0;
  std::uint64_t floor = 0;
  std::uint64_t told_floor = 0;  // a packet has left with it
  MessageTable table;
  IndexList<OutgoingMessage, &OutgoingMessage::send_link> to_send;
  IndexList<Retransmit, &Retransmit::link> retransmits;
  std::uint32_t one_sided = kNoIndex;  // its PeerOneSided, while it has one
};

// Messages from the peer.
struct PeerReceives {
  std::uint64_t remote_floor = 0;
  std::uint64_t next_to_process = 0;
  std::uint64_t refused_floor = 0;  // the incomplete number that the last refused floor would pass
  MessageTable table;
  std::uint32_t patience_eighths = 8;  // detection intervals are scaled by it: 8 is 1
  std::uint32_t active_epoch = 0;      // when it last sent data, for the allowance
  std::uint32_t grantee = kNoIndex;    // while its messages are paced
  std::uint32_t posted = 0;            // receives posted for exactly this peer
  std::uint32_t half_messages = 0;     // messages that arrived in part
  std::uint32_t open = 0;              // matched, not finished
};

}  // namespace hawser::proto
