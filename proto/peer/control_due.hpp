// SPDX-License-Identifier: Apache-2.0
// The control that is due to one peer: a part of Peer, which the Outbox alone reads and changes.
#pragma once

#include <cstdint>

#include "proto/base/list.hpp"
#include "proto/base/slab.hpp"
#include "proto/base/time.hpp"
#include "proto/message/incoming_message.hpp"
#include "proto/wire/layout.hpp"

namespace hawser::proto {

// How many pairs of NICs a packet of the control queue goes over.
enum class Ways : std::uint8_t {
  one,
  two,
  all,
};

// The same status of `run` messages with consecutive numbers.
struct PendingStatus {
  std::uint64_t number = 0;
  wire::MessageStatus status{};
  std::uint16_t run = 1;
  ListLink link;
};

class ControlDue {
  friend class Outbox;

  Time at = kNever;                  // when a packet leaves at the latest
  std::uint32_t not_in_turn = 0;     // until then it may ride on data that the next turn sends
  std::uint32_t unacknowledged = 0;  // packets that arrived since the last acknowledgement
  IndexList<IncomingMessage, &IncomingMessage::due_link> messages;  // with a grant or a request
  IndexList<PendingStatus, &PendingStatus::link> statuses;
  std::uint32_t granted_all = kNoIndex;  // the message whose last grant is to be repeated once
  std::uint16_t nic_states = 0;          // a bit per local NIC whose state the peer should learn
  bool now = false;                      // with this turn, whatever `at` says
  bool solicitation : 1 = false;         // requests for messages that are not known here
  bool finals : 1 = false;        // the peer waits: repeat the final statuses above its floor
  bool finals_again : 1 = false;  // the last packet had statuses: repeat them once
  Ways ways : 2 = Ways::one;      // for the next packet: more, if the peer waits for it
};
static_assert(sizeof(ControlDue) == 40);

}  // namespace hawser::proto
