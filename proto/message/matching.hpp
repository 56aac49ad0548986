// SPDX-License-Identifier: Apache-2.0
// Tag matching: which receive gets which message.
//
// The order is MPI's. A message goes to the earliest posted receive that it matches. A receive gets
// the oldest matching message, by the order of arrival here. The caller lets the messages of one
// peer arrive in the order of their numbers, so none overtakes. Two match if the channel is the
// same, the peer is the same or the receive takes any, and the tags agree in the bits of the
// receive's mask.
//
// Both sides are found by hash whatever the mask, because adapters post every receive with a few
// tag bits masked out (Open MPI over libfabric does). A *view* is one way of looking: a mask, and
// whether the peer counts. Under a view a posted receive and the messages that it matches have the
// same key (peer if it counts, channel, tag & mask). Each posted receive is in one bucket, that of
// its view. An arriving message looks under every view that has posted receives and takes the
// earliest. Unmatched messages are in one bucket per view; a new view enters all of them. Programs
// use few views. Views beyond kViews are searched in order instead.
//
// Posted receives are stored by the operation's index, messages by the index of their descriptor,
// so that cancelling and removing find theirs at once. Nothing is allocated after construction.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "hawser/status.hpp"
#include "hawser/types.hpp"
#include "proto/base/list.hpp"
#include "proto/base/pieces.hpp"
#include "proto/base/untouched.hpp"
#include "proto/options.hpp"

namespace hawser::proto {

struct PostedReceive {
  OperationId operation = kNoOperation;
  PeerId peer = kAnyPeer;
  std::uint16_t channel = 0;
  bool scattered = false;  // `pieces` counts, and not `data`
  std::uint64_t tag = 0;
  std::uint64_t mask = ~std::uint64_t{0};
  union {
    std::byte* data = nullptr;
    const ScatterList* pieces;
  };
  std::uint64_t bytes = 0;
  ReceiveOptions options{};

  void scatter_to(const ScatterList& list) {
    scattered = true;
    pieces = &list;
    bytes = list.bytes;
  }
};

// A message whose envelope has come in its turn.
struct UnexpectedEntry {
  PeerId peer = kAnyPeer;
  std::uint32_t rx_message = kNoIndex;  // the descriptor that holds it
  std::uint64_t number = 0;
  std::uint16_t channel = 0;
  std::uint64_t tag = 0;
  std::uint64_t bytes = 0;
  std::uint64_t immediate = 0;
  std::uint64_t age = 0;  // order of arrival, as probe tells it; 0: arrives now
};

class Matching {
 public:
  // The low 32 bits of an OperationId are below max_operations, rx_message is below max_messages,
  // peers are below max_peers.
  Matching(std::uint32_t max_operations, std::uint32_t max_messages, std::uint32_t max_peers);

  // Returns the oldest message that the receive matches, and no longer holds it. Else posts the
  // receive and returns nothing. The operation's index must not have a posted receive.
  [[nodiscard]] std::optional<UnexpectedEntry> post(const PostedReceive& receive);

  // Returns the earliest posted receive that the message matches, and no longer posts it. Else
  // holds the message as unexpected and returns null. The pointer is valid until the next call of
  // post. The order of these calls is the messages' age. Their numbers don't count: a peer's next
  // session counts anew while whole messages of the last one may still be held. A message that was
  // held and removed before goes back to its place if its entry says its age.
  [[nodiscard]] const PostedReceive* arrive(const UnexpectedEntry& message);
  // Whether arrive would find a receive for it; rx_message is not looked at.
  [[nodiscard]] bool is_wanted(const UnexpectedEntry& message) const {
    return find_posted(message) != kNoIndex;
  }
  // The two halves of arrive, for a caller that needs a descriptor for unmatched messages only:
  // `match` doesn't look at rx_message, `hold` is for a message that `match` found nothing for.
  [[nodiscard]] const PostedReceive* match(const UnexpectedEntry& message);
  void hold(const UnexpectedEntry& message);

  // The oldest message held that a receive with these arguments would get, or null. Valid until the
  // next call that isn't const.
  [[nodiscard]] const UnexpectedEntry* probe(PeerId peer, std::uint16_t channel, std::uint64_t tag,
                                             std::uint64_t mask) const;

  // A posted receive, or null if the operation isn't posted (any more). Valid as for probe.
  [[nodiscard]] const PostedReceive* find(OperationId operation) const;
  // Takes a posted receive back; nothing if the operation isn't posted (any more).
  [[nodiscard]] std::optional<PostedReceive> cancel_receive(OperationId operation);
  // Removes the message that this descriptor holds; false if it holds none here.
  bool remove_message(std::uint32_t rx_message);

  // Forgets a peer: calls on_posted for each receive posted for exactly this peer, in the order of
  // posting, and on_message for each message of it that is held, oldest first. Each is already
  // removed when its call is made, and the call may post again for others.
  template <class OnPosted, class OnMessage>
  void drop_peer(PeerId peer, OnPosted&& on_posted, OnMessage&& on_message) {
    const std::uint32_t p = checked(peer);
    while (!peers_[p].posted.empty()) on_posted(take_posted(peers_[p].posted.front()));
    while (!peers_[p].messages.empty()) on_message(take_message(peers_[p].messages.front()));
  }

  [[nodiscard]] std::uint32_t posted() const { return posted_count_; }
  [[nodiscard]] std::uint32_t unexpected() const { return message_count_; }

 private:
  static constexpr std::uint32_t kViews = 8;
  static constexpr std::uint32_t kNoView = kViews;

  struct View {
    std::uint64_t mask = 0;
    bool any_peer = false;
    std::uint32_t posted = 0;
  };
  struct Posted {
    PostedReceive receive{};
    std::uint64_t sequence = 0;  // order of posting; 0: not posted
    std::uint32_t view = kNoView;
    std::uint32_t bucket = 0;  // if it has a view
    ListLink in_bucket{};      // or in without_view_
    ListLink of_peer{};        // if it is for one peer
  };
  struct Message {
    UnexpectedEntry entry{};
    bool held = false;
    ListLink of_peer{};
    ListLink of_all{};
  };
  // A message's place in a bucket: node kViews * rx_message + view.
  struct Node {
    ListLink in_bucket{};
  };
  using PostedBucket = IndexList<Posted, &Posted::in_bucket>;
  using MessageBucket = IndexList<Node, &Node::in_bucket>;
  struct Peer {
    IndexList<Posted, &Posted::of_peer> posted;
    IndexList<Message, &Message::of_peer> messages;
  };

  [[nodiscard]] std::uint32_t checked(PeerId peer) const;
  [[nodiscard]] std::uint32_t find_view(std::uint64_t mask, bool any_peer) const;
  std::uint32_t find_or_add_view(std::uint64_t mask, bool any_peer);
  [[nodiscard]] std::uint64_t hash(std::uint32_t view, PeerId peer, std::uint16_t channel,
                                   std::uint64_t tag) const;
  void enter_in_bucket(std::uint32_t message, std::uint32_t view);
  template <class List, class Items, class MessageOf>
  [[nodiscard]] std::uint32_t first_younger(const List& list, const Items& items, std::uint64_t age,
                                            MessageOf&& message_of) const;
  [[nodiscard]] std::uint32_t find_message(std::uint32_t view, PeerId peer, std::uint16_t channel,
                                           std::uint64_t tag, std::uint64_t mask) const;
  [[nodiscard]] std::uint32_t find_posted(const UnexpectedEntry& message) const;
  const PostedReceive& take_posted(std::uint32_t index);
  UnexpectedEntry take_message(std::uint32_t index);

  std::array<View, kViews> views_{};
  std::uint32_t views_used_ = 0;
  std::uint32_t posted_count_ = 0;
  std::uint32_t message_count_ = 0;
  std::uint64_t last_sequence_ = 0;
  std::uint64_t last_age_ = 0;

  MadeAtUse<Posted> posted_;
  std::vector<PostedBucket> posted_buckets_;  // a power of two; so is message_buckets_
  PostedBucket without_view_;                 // in the order of posting
  MadeAtUse<Message> messages_;
  MadeAtUse<Node> nodes_;
  std::vector<MessageBucket> message_buckets_;
  IndexList<Message, &Message::of_all> all_messages_;  // in the order of arrival
  std::vector<Peer> peers_;
};

}  // namespace hawser::proto
