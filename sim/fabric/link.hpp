// SPDX-License-Identifier: Apache-2.0
// One direction of a cable, with the queue in front of it.
//
// The queue has two classes, each first in, first out. Urgent packets go before all others, but
// don't stop one that is being sent. A packet that doesn't fit is dropped, or trimmed to its
// headers; then it goes on as an urgent packet. The link marks a packet when it leaves, by what it
// leaves behind in the queue.
//
// All packets of a link are one chain, in the order in which they will arrive:
//
//   head -> ... -> started | urgent, waiting ... -> last_urgent | waiting ... -> tail
//   on their way, each with    to be started when the link is free
//   its time of arrival
//
// A link has one event pending, the arrival of `head`. The start of each packet follows from the
// packet before it, so it needs no event. The link catches up with starts when the packet before
// arrives. It also does so before a new packet comes to the queue, since the order, the room and
// marks could depend on the starts. Each decision is thus made by the queue at its time.
// Priorities, marks and changes of rate are exact, at the cost of one event for each packet and
// link.
#pragma once

#include <cstdint>
#include <limits>

#include "sim/fabric/instant.hpp"
#include "sim/fabric/packet.hpp"

namespace hawser::fabric {

inline constexpr std::uint32_t kUnlimited = std::numeric_limits<std::uint32_t>::max();

struct QueueSettings {
  // The room of each class, in bytes of whole packets. A packet that is being sent counts until it
  // has left, unless it is urgent. A link with nothing to send takes any packet.
  std::uint32_t capacity = 1 << 20;
  // A packet that leaves at most `mark_min` bytes waiting behind it is never marked. One that
  // leaves more than `mark_max` always is. Between them the probability rises linearly from 0 to 1,
  // as in htsim's CompositeQueue. Urgent packets neither count nor are marked.
  std::uint32_t mark_min = kUnlimited;
  std::uint32_t mark_max = kUnlimited;
  // A packet that doesn't fit goes on without its payload, as an urgent packet of this many bytes.
  // 0: it is dropped.
  std::uint32_t trim_to = 0;
};

struct LinkSettings {
  std::uint64_t bits_per_s = 100 * kGigabit;
  Span latency{};  // of the cable and of the switch at its end
  QueueSettings queue;
};

struct LinkCounters {
  std::uint64_t bytes = 0;    // of packets that entered the queue
  std::uint32_t packets = 0;  // the same; 2^32 of them are minutes at 400 Gb/s
  std::uint32_t dropped = 0;  // no room
  std::uint32_t trimmed = 0;
  std::uint32_t marked = 0;
  std::uint32_t lost = 0;  // by chance
  std::uint32_t cut = 0;   // the link was down when they came, or went down while they were in it
};

class alignas(64) Link {
 public:
  // `end`: what the network calls its far end. `salt`: the seed of its random draws.
  Link(const LinkSettings& settings, std::uint32_t end, std::uint64_t salt);

  // Returns true if the packet is the first in the link now: it arrives at due(). Else it waits for
  // others, or was dropped and given back to the store.
  [[nodiscard]] bool enter(Instant now, PacketId id, PacketStore& packets);
  // The packet that arrives now, at due(). kNoPacket if it was lost on the way and has been given
  // back. Afterwards due() is that of the next packet.
  [[nodiscard]] PacketId leave(PacketStore& packets);
  // When the first packet arrives; kNever if there is none.
  [[nodiscard]] Instant due() const { return due_; }

  // How long the present contents of the queue will take if nothing else comes; for ever if it is
  // down.
  [[nodiscard]] Span backlog(Instant now) const {
    const Instant free = busy_until_ + pace_.time_of(std::uint64_t{waiting_} + waiting_urgent_);
    return free > now ? free - now : Span{};
  }
  // The same without the last `bytes` bytes that entered.
  [[nodiscard]] Span backlog_before(Instant now, std::uint64_t bytes) const {
    const Span all = backlog(now);
    const Span last = pace_.time_of(bytes);
    return all > last ? all - last : Span{};
  }
  [[nodiscard]] std::uint32_t end() const { return end_; }
  [[nodiscard]] const LinkCounters& counters() const { return counters_; }

  // Prefetches the link, its first packet, or the packet behind that.
  void fetch() const {
    __builtin_prefetch(this);
    __builtin_prefetch(&queue_);
  }
  void fetch_first(const PacketStore& packets) const {
    if (head_ != kNoPacket) __builtin_prefetch(&packets.at(head_));
  }
  void fetch_second(const PacketStore& packets) const {
    if (head_ == kNoPacket) return;
    const PacketId second = packets.at(head_).next;
    if (second != kNoPacket) __builtin_prefetch(&packets.at(second));
  }

  // ---- faults
  // All packets in the link are lost, and so are later ones, until it has been put up as often
  // as down.
  void put_down(PacketStore& packets);
  void put_up();
  [[nodiscard]] bool is_down() const { return down_ > 0; }
  // Holds for packets that have not begun to be sent; kSlowest to kFastest.
  void set_rate(Instant now, std::uint64_t bits_per_s, PacketStore& packets);
  // The probability that a sent packet silently doesn't arrive.
  void set_loss(double probability) { loss_ = static_cast<float>(probability); }

 private:
  void start(Instant at, Packet& packet, PacketId id);
  void start_next(PacketStore& packets);
  void start_waiting(Instant now, PacketStore& packets);
  [[nodiscard]] bool joins_quietly(Instant now, const Packet& packet) const;
  void append(PacketId id, PacketStore& packets);
  void append_urgent(PacketId id, PacketStore& packets);
  [[nodiscard]] bool makes_room(Packet& packet);
  [[nodiscard]] bool leaves_mark();
  [[nodiscard]] double chance();

  Instant busy_until_;  // when the packet started last has been sent; kNever while the link is down
  Instant due_ = kNever;
  Pace pace_;
  Span latency_;
  PacketId head_ = kNoPacket;
  PacketId started_ = kNoPacket;      // the last one; none if all in the chain wait or it is empty
  PacketId last_urgent_ = kNoPacket;  // among the packets that wait
  PacketId tail_ = kNoPacket;
  std::uint32_t waiting_ = 0;  // bytes
  std::uint32_t waiting_urgent_ = 0;
  std::uint32_t end_;
  std::uint32_t sending_ = 0;  // bytes of the packet started last; 0 if it was urgent

  QueueSettings queue_;
  std::uint32_t down_ = 0;
  float loss_ = 0;
  std::uint64_t dice_;
  LinkCounters counters_;
};
static_assert(sizeof(Link) == 128, "two cache lines: the first moves packets");

}  // namespace hawser::fabric
