// SPDX-License-Identifier: Apache-2.0
#include "proto/message/matching.hpp"

#include <bit>
#include <cstddef>
#include <limits>

#include "proto/base/assert.hpp"

namespace hawser::proto {

namespace {

std::uint32_t index_of(OperationId operation) {
  return static_cast<std::uint32_t>(static_cast<std::uint64_t>(operation));
}

// peer may be kAnyPeer.
bool matches(const UnexpectedEntry& message, PeerId peer, std::uint16_t channel, std::uint64_t tag,
             std::uint64_t mask) {
  return ((message.tag ^ tag) & mask) == 0 && message.channel == channel &&
         (peer == kAnyPeer || message.peer == peer);
}

bool matches(const UnexpectedEntry& message, const PostedReceive& receive) {
  return matches(message, receive.peer, receive.channel, receive.tag, receive.mask);
}

// SplitMix64's finalizer.
std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

Matching::Matching(std::uint32_t max_operations, std::uint32_t max_messages,
                   std::uint32_t max_peers)
    : posted_(max_operations),
      posted_buckets_(std::bit_ceil(std::size_t{max_operations})),
      messages_(max_messages),
      nodes_(std::size_t{max_messages} * kViews),
      message_buckets_(std::bit_ceil(std::size_t{max_messages} * 2)),
      peers_(max_peers) {
  HAWSER_ASSERT(nodes_.size() < kNoIndex - 1);
}

std::optional<UnexpectedEntry> Matching::post(const PostedReceive& receive) {
  const std::uint32_t index = index_of(receive.operation);
  HAWSER_ASSERT(index < posted_.size());
  Posted& posted = posted_[index];
  HAWSER_ASSERT(posted.sequence == 0, "a receive is posted under this index");

  const std::uint32_t view = find_or_add_view(receive.mask, receive.peer == kAnyPeer);
  const std::uint32_t message =
      message_count_ == 0
          ? kNoIndex
          : find_message(view, receive.peer, receive.channel, receive.tag, receive.mask);
  if (message != kNoIndex) return take_message(message);

  posted.receive = receive;
  posted.sequence = ++last_sequence_;
  posted.view = view;
  if (view == kNoView) {
    without_view_.push_back(posted_.all(), index);
  } else {
    ++views_[view].posted;
    const std::uint64_t h = hash(view, receive.peer, receive.channel, receive.tag);
    posted.bucket = static_cast<std::uint32_t>(h & (posted_buckets_.size() - 1));
    posted_buckets_[posted.bucket].push_back(posted_.all(), index);
  }
  if (receive.peer != kAnyPeer)
    peers_[checked(receive.peer)].posted.push_back(posted_.all(), index);
  ++posted_count_;
  return std::nullopt;
}

const PostedReceive* Matching::arrive(const UnexpectedEntry& message) {
  const PostedReceive* receive = match(message);
  if (receive == nullptr) hold(message);
  return receive;
}

const PostedReceive* Matching::match(const UnexpectedEntry& message) {
  const std::uint32_t index = find_posted(message);
  return index == kNoIndex ? nullptr : &take_posted(index);
}

void Matching::hold(const UnexpectedEntry& entry) {
  const std::uint32_t index = entry.rx_message;
  HAWSER_ASSERT(index < messages_.size());
  Message& message = messages_[index];
  HAWSER_ASSERT(!message.held, "this descriptor holds a message");
  message.entry = entry;
  if (entry.age == 0) message.entry.age = ++last_age_;
  message.held = true;
  const auto itself = [](std::uint32_t i) { return i; };
  const auto enter = [&](auto& list) {
    list.insert_before(messages_, first_younger(list, messages_, message.entry.age, itself), index);
  };
  enter(peers_[checked(entry.peer)].messages);
  enter(all_messages_);
  for (std::uint32_t view = 0; view < views_used_; ++view) enter_in_bucket(index, view);
  ++message_count_;
}

const UnexpectedEntry* Matching::probe(PeerId peer, std::uint16_t channel, std::uint64_t tag,
                                       std::uint64_t mask) const {
  const std::uint32_t view = find_view(mask, peer == kAnyPeer);
  const std::uint32_t index = find_message(view, peer, channel, tag, mask);
  return index == kNoIndex ? nullptr : &messages_[index].entry;
}

const PostedReceive* Matching::find(OperationId operation) const {
  const std::uint32_t index = index_of(operation);
  if (index >= posted_.made()) return nullptr;
  const Posted& posted = posted_[index];
  const bool here = posted.sequence != 0 && posted.receive.operation == operation;
  return here ? &posted.receive : nullptr;
}

std::optional<PostedReceive> Matching::cancel_receive(OperationId operation) {
  if (find(operation) == nullptr) return std::nullopt;
  return take_posted(index_of(operation));
}

bool Matching::remove_message(std::uint32_t rx_message) {
  HAWSER_ASSERT(rx_message < messages_.size());
  if (!messages_[rx_message].held) return false;
  take_message(rx_message);
  return true;
}

std::uint32_t Matching::checked(PeerId peer) const {
  const std::uint32_t index = peer_place(peer);
  HAWSER_ASSERT(index < peers_.size());
  return index;
}

std::uint32_t Matching::find_view(std::uint64_t mask, bool any_peer) const {
  for (std::uint32_t view = 0; view < views_used_; ++view) {
    if (views_[view].mask == mask && views_[view].any_peer == any_peer) return view;
  }
  return kNoView;
}

// A new view gets every held message, in the order of age. That happens at most kViews times.
std::uint32_t Matching::find_or_add_view(std::uint64_t mask, bool any_peer) {
  std::uint32_t view = find_view(mask, any_peer);
  if (view != kNoView || views_used_ == kViews) return view;
  view = views_used_++;
  views_[view] = {mask, any_peer, 0};
  all_messages_.for_each(messages_,
                         [this, view](std::uint32_t message) { enter_in_bucket(message, view); });
  return view;
}

std::uint64_t Matching::hash(std::uint32_t view, PeerId peer, std::uint16_t channel,
                             std::uint64_t tag) const {
  const std::uint64_t who = views_[view].any_peer ? 0 : static_cast<std::uint64_t>(peer);
  // The factor is odd, so that neither part undoes the other.
  const std::uint64_t where = who << 32 | std::uint64_t{channel} << 8 | view;
  return mix((tag & views_[view].mask) + where * 0x9e3779b97f4a7c15u);
}

void Matching::enter_in_bucket(std::uint32_t message, std::uint32_t view) {
  const UnexpectedEntry& entry = messages_[message].entry;
  const std::uint64_t h = hash(view, entry.peer, entry.channel, entry.tag);
  MessageBucket& bucket = message_buckets_[h & (message_buckets_.size() - 1)];
  const std::uint32_t successor =
      first_younger(bucket, nodes_, entry.age, [](std::uint32_t node) { return node / kViews; });
  bucket.insert_before(nodes_, successor, message * kViews + view);
}

// Where a message of this age belongs in a list, which is in the order of age: almost always at the
// end.
template <class List, class Items, class MessageOf>
std::uint32_t Matching::first_younger(const List& list, const Items& items, std::uint64_t age,
                                      MessageOf&& message_of) const {
  const auto is_older = [&](std::uint32_t i) { return messages_[message_of(i)].entry.age < age; };
  if (list.empty() || is_older(list.back())) return kNoIndex;
  std::uint32_t at = list.front();
  while (is_older(at)) at = list.next(items, at);
  return at;
}

// The oldest held message that a receive with these arguments matches, or kNoIndex. A bucket has
// the messages of one key in the order of age, like all lists here.
std::uint32_t Matching::find_message(std::uint32_t view, PeerId peer, std::uint16_t channel,
                                     std::uint64_t tag, std::uint64_t mask) const {
  if (view != kNoView) {
    const std::uint64_t h = hash(view, peer, channel, tag);
    const MessageBucket& bucket = message_buckets_[h & (message_buckets_.size() - 1)];
    for (std::uint32_t node = bucket.front(); node != kNoIndex; node = bucket.next(nodes_, node)) {
      const std::uint32_t index = node / kViews;
      if (node % kViews == view && matches(messages_[index].entry, peer, channel, tag, mask)) {
        return index;
      }
    }
    return kNoIndex;
  }
  const auto scan = [&](const auto& list) {
    std::uint32_t index = list.front();
    while (index != kNoIndex && !matches(messages_[index].entry, peer, channel, tag, mask)) {
      index = list.next(messages_, index);
    }
    return index;
  };
  return peer == kAnyPeer ? scan(all_messages_) : scan(peers_[checked(peer)].messages);
}

std::uint32_t Matching::find_posted(const UnexpectedEntry& message) const {
  std::uint32_t best = kNoIndex;
  std::uint64_t best_sequence = std::numeric_limits<std::uint64_t>::max();
  // The first match on a list is the earliest posted of that list.
  const auto scan = [&](const PostedBucket& list) {
    for (std::uint32_t i = list.front(); i != kNoIndex; i = list.next(posted_, i)) {
      const Posted& posted = posted_[i];
      if (posted.sequence > best_sequence) return;
      if (!matches(message, posted.receive)) continue;
      best = i;
      best_sequence = posted.sequence;
      return;
    }
  };
  for (std::uint32_t view = 0; view < views_used_; ++view) {
    if (views_[view].posted == 0) continue;
    const std::uint64_t h = hash(view, message.peer, message.channel, message.tag);
    scan(posted_buckets_[h & (posted_buckets_.size() - 1)]);
  }
  scan(without_view_);
  return best;
}

const PostedReceive& Matching::take_posted(std::uint32_t index) {
  Posted& posted = posted_[index];
  const PostedReceive& receive = posted.receive;
  if (posted.view == kNoView) {
    without_view_.remove(posted_.all(), index);
  } else {
    --views_[posted.view].posted;
    posted_buckets_[posted.bucket].remove(posted_.all(), index);
  }
  if (receive.peer != kAnyPeer) peers_[checked(receive.peer)].posted.remove(posted_.all(), index);
  posted.sequence = 0;
  --posted_count_;
  return receive;
}

UnexpectedEntry Matching::take_message(std::uint32_t index) {
  Message& message = messages_[index];
  const UnexpectedEntry& entry = message.entry;
  for (std::uint32_t view = 0; view < views_used_; ++view) {
    const std::uint64_t h = hash(view, entry.peer, entry.channel, entry.tag);
    message_buckets_[h & (message_buckets_.size() - 1)].remove(nodes_.all(), index * kViews + view);
  }
  peers_[checked(entry.peer)].messages.remove(messages_.all(), index);
  all_messages_.remove(messages_.all(), index);
  message.held = false;
  --message_count_;
  return entry;
}

}  // namespace hawser::proto
