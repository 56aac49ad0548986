// SPDX-License-Identifier: Apache-2.0
#include "coll/leftovers.hpp"

#include <algorithm>

#include "coll/layout.hpp"

namespace hawser::coll {
namespace {

// The budget of a look: ids that it asks for, and messages that it discards.
constexpr std::size_t kMostAsked = 8;
constexpr int kMostDiscarded = 64;

}  // namespace

void Leftovers::add(std::uint32_t id) {
  if (ids_.size() == kMostIds) ids_.erase(ids_.begin());
  ids_.push_back(id);
}

void Leftovers::look() {
  int left = kMostDiscarded;
  for (std::size_t asked = 0; asked < std::min(kMostAsked, ids_.size()) && left > 0; ++asked) {
    next_ = next_ < ids_.size() ? next_ : 0;
    while (left > 0 && discard_one(ids_[next_])) --left;
    ++next_;
  }
}

// Returns false if there is none, or if the endpoint has no room for a receive.
bool Leftovers::discard_one(std::uint32_t id) {
  Envelope envelope;
  MessageId message = kNoMessage;
  const Status claimed = endpoint_.claim({.peer = kAnyPeer,
                                          .channel = channel_of(id),
                                          .tag = tag_base(id),
                                          .ignore = ~kTagIdMask,
                                          .owner = ChannelOwner::collectives},
                                         envelope, message);
  if (claimed != Status::ok) return false;
  OperationId operation = kNoOperation;
  const Status status = endpoint_.receive_claimed(message, {.user_data = route_}, operation);
  if (status == Status::ok) {
    ++in_flight_;
    return true;
  }
  // Without room the message goes back, for the next look. It may also have gone with its session.
  (void)endpoint_.put_back(message);
  return false;
}

}  // namespace hawser::coll
