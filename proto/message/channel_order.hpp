// SPDX-License-Identifier: Apache-2.0
// The order of one-sided operations on a channel: when a strong one may go.
//
// A weak operation goes at once. A strong one goes when all that were posted before it on its
// channel, to its peer, have ended. Those posted after it don't wait for it, unless they are
// strong. If one of those before it failed, it must not go: each strong one then fails, until a
// flush has told the failure.
//
// The operations of a channel fall into segments. A strong one that is held ends a segment, and
// belongs to the next. It counts the operations of its segment that have not ended. It goes when it
// is the oldest that is held, and the count is 0.
//
// When a session ends, no strong one is held any more, and no failure counts. An operation that has
// its final status while a NIC still holds its packets goes on. It has not completed, so strong
// ones of the next session wait for it.
//
// A peer has a list of channels with operations. Each call walks it, so there are at most
// kMostChannels.
#pragma once

#include <cstdint>

#include "proto/base/assert.hpp"
#include "proto/base/list.hpp"
#include "proto/base/slab.hpp"
#include "proto/message/one_sided_send.hpp"

namespace hawser::proto {

// A channel on which operations are under way to a peer, or one has failed.
struct OrderedChannel {
  std::uint16_t channel = 0;
  bool failed = false;             // since the last flush
  std::uint32_t first_failed = 0;  // the segments of the first and of the last failure
  std::uint32_t last_failed = 0;
  std::uint32_t segment = 0;  // of what is posted now
  std::uint32_t open = 0;     // operations of that segment that have not ended
  std::uint32_t all = 0;      // of all segments
  std::uint32_t begins = 0;   // the first segment of the session
  std::uint32_t earlier = 0;  // operations of earlier sessions, which count as of that segment
  IndexList<OneSidedSend, &OneSidedSend::order_link> held;
  ListLink link;
};
using OrderedChannels = IndexList<OrderedChannel, &OrderedChannel::link>;

class ChannelOrder {
 public:
  static constexpr std::uint32_t kMostChannels = 16;  // of a peer
  static constexpr std::uint32_t kMostHeld = 64;      // on a channel

  ChannelOrder(Slab<OneSidedSend>& operations, std::uint32_t channels)
      : operations_(operations), channels_(channels) {}

  enum class Verdict : std::uint8_t {
    go,
    held,      // `end` of another one will release it
    no_place,  // nothing was done
  };
  [[nodiscard]] Verdict post(OrderedChannels& of_peer, std::uint16_t channel, std::uint32_t index,
                             bool strong) {
    const std::uint32_t at = channel_of(of_peer, channel);
    if (at == kNoIndex) return Verdict::no_place;
    OrderedChannel& on = channels_.at(at);
    OneSidedSend& operation = operations_.at(index);
    const bool waits = strong && on.all > 0;
    operation.order_ends = on.segment;
    if (waits) {
      if (count_held(on) >= kMostHeld) return Verdict::no_place;
      operation.order_before = on.open;
      on.held.push_back(operations_, index);
      ++on.segment;
      on.open = 0;
    }
    operation.order_channel = channels_.id_at(at);
    operation.order_segment = on.segment;
    ++on.open;
    ++on.all;
    return waits ? Verdict::held : Verdict::go;
  }

  // The operation has ended. Calls release(index, failed) for each held one that is its turn now.
  // `failed`: it must end with predecessor_failed, by another call of this function.
  template <class Release>
  void end(OrderedChannels& of_peer, std::uint32_t index, bool ok, Release&& release) {
    OneSidedSend& operation = operations_.at(index);
    const SlabId id = operation.order_channel;
    operation.order_channel = kNoSlabId;
    if (channels_.get(id) == nullptr) return;  // its session ended while it was held
    const std::uint32_t at = id.index;
    OrderedChannel& on = channels_.at(at);
    if (!ok) note_failure(on, operation.order_segment);
    --on.all;
    std::uint32_t segment = operation.order_segment;
    if (is_earlier(on, segment)) {
      --on.earlier;
      segment = on.begins;
    }
    if (segment == on.segment) {
      --on.open;
    } else {
      --operations_.at(ends(on, segment)).order_before;
    }
    if (!on.held.empty() && operations_.at(on.held.front()).order_before == 0) {
      const std::uint32_t next = on.held.pop_front(operations_);
      release(next, has_failed(next));
      return;
    }
    forget_idle(of_peer, at);
  }

  // Whether an operation that was posted has not ended, nor has its session.
  [[nodiscard]] bool has_place(std::uint32_t index) const {
    const OneSidedSend& operation = operations_.at(index);
    const OrderedChannel* const on = channels_.get(operation.order_channel);
    return on != nullptr && !is_earlier(*on, operation.order_segment);
  }
  // Whether an operation that was posted before this one on its channel has failed.
  [[nodiscard]] bool has_failed(std::uint32_t index) const {
    const OneSidedSend& operation = operations_.at(index);
    const OrderedChannel& on = channels_.at(operation.order_channel.index);
    return on.failed && !is_after(on.first_failed, operation.order_ends);
  }
  // This one, a flush, tells the failure of those before it. Returns whether there was one. Those
  // behind it go on being held against their followers.
  bool tell_failure(std::uint32_t index) {
    if (!has_failed(index)) return false;
    const std::uint32_t ends = operations_.at(index).order_ends;
    OrderedChannel& on = channels_.at(operations_.at(index).order_channel.index);
    on.failed = is_after(on.last_failed, ends);
    on.first_failed = ends + 1;
    return true;
  }

  // The peer's session has ended. Calls fail(index) for each held operation, which has no place in
  // any order from then on. An operation under way keeps its place until it ends, but its failure
  // counts no more.
  template <class Fail>
  void drop(OrderedChannels& of_peer, Fail&& fail) {
    IndexList<OneSidedSend, &OneSidedSend::order_link> dropped;
    for (std::uint32_t at = of_peer.front(); at != kNoIndex;) {
      const std::uint32_t next = of_peer.next(channels_, at);
      OrderedChannel& on = channels_.at(at);
      while (!on.held.empty()) {
        const std::uint32_t index = on.held.pop_front(operations_);
        operations_.at(index).order_channel = kNoSlabId;
        --on.all;
        dropped.push_back(operations_, index);
      }
      on.failed = false;
      on.begins = ++on.segment;
      on.earlier = on.open = on.all;
      forget_idle(of_peer, at);
      at = next;
    }
    while (!dropped.empty()) fail(dropped.pop_front(operations_));
  }

  [[nodiscard]] std::uint32_t channels() const { return channels_.size(); }

 private:
  [[nodiscard]] static bool is_after(std::uint32_t a, std::uint32_t b) {
    return static_cast<std::int32_t>(a - b) > 0;
  }
  // Whether the segment is of an earlier session.
  [[nodiscard]] static bool is_earlier(const OrderedChannel& on, std::uint32_t segment) {
    return on.earlier > 0 && is_after(on.begins, segment);
  }
  static void note_failure(OrderedChannel& on, std::uint32_t segment) {
    if (is_earlier(on, segment)) return;
    if (!on.failed || is_after(on.first_failed, segment)) on.first_failed = segment;
    if (!on.failed || is_after(segment, on.last_failed)) on.last_failed = segment;
    on.failed = true;
  }
  [[nodiscard]] std::uint32_t channel_of(OrderedChannels& of_peer, std::uint16_t channel) {
    std::uint32_t count = 0;
    for (std::uint32_t at = of_peer.front(); at != kNoIndex; at = of_peer.next(channels_, at)) {
      if (channels_.at(at).channel == channel) return at;
      ++count;
    }
    SlabId id;
    OrderedChannel* const made = count < kMostChannels ? channels_.try_allocate(id) : nullptr;
    if (made == nullptr) return kNoIndex;
    made->channel = channel;
    of_peer.push_back(channels_, id.index);
    return id.index;
  }
  // The held operation that ends a segment.
  [[nodiscard]] std::uint32_t ends(const OrderedChannel& on, std::uint32_t segment) const {
    std::uint32_t at = on.held.front();
    while (operations_.at(at).order_ends != segment) at = on.held.next(operations_, at);
    return at;
  }
  [[nodiscard]] std::uint32_t count_held(const OrderedChannel& on) const {
    std::uint32_t count = 0;
    for (std::uint32_t at = on.held.front(); at != kNoIndex && count < kMostHeld; ++count) {
      at = on.held.next(operations_, at);
    }
    return count;
  }
  void forget_idle(OrderedChannels& of_peer, std::uint32_t at) {
    const OrderedChannel& on = channels_.at(at);
    if (on.all > 0 || on.failed) return;
    of_peer.remove(channels_, at);
    channels_.free(at);
  }

  Slab<OneSidedSend>& operations_;
  Slab<OrderedChannel> channels_;
};

}  // namespace hawser::proto
