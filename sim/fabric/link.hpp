// SPDX-License-Identifier: Apache-2.0
// One direction of a cable, with the queue in front of it.
//
// The queue has two classes, each first in, first out; urgent packets go before all others, but
// stop none that is being sent. What doesn't fit is dropped, or trimmed to its headers and goes on
// as an urgent packet. A packet is marked when it leaves, by what it leaves behind in the queue.
//
// All packets of a link are one chain, in the order in which they will arrive:
//
//   head -> ... -> started | urgent, waiting ... -> last_urgent | waiting ... -> tail
//   on their way, each with    to be started when the link is free
//   its time of arrival
//
// A link has one event pending, the arrival of `head`. When one begins to be sent follows from the
// one before it, so that needs no event: it is caught up with when the one before arrives, and
// before anything comes to the queue of which the order, the room or a mark could depend on it. So
// each decision is made of what was there at its time: priorities, marks and changes of rate are
// exact at the cost of one event for each packet and link.
#pragma once

#include <cstdint>
#include <limits>

#include "sim/fabric/instant.hpp"
#include "sim/fabric/packet.hpp"

namespace hawser::fabric {

inline constexpr std::uint32_t kUnlimited = std::numeric_limits<std::uint32_t>::max();

struct QueueSettings {
  // Of each class, in bytes of whole packets. The one being sent counts until it has left, unless
  // it is urgent. A link with nothing to send takes any packet.
  std::uint32_t capacity = 1 << 20;
  // A packet that leaves no more than `mark_min` bytes waiting behind it is never marked, one that
  // leaves more than `mark_max` always, and between them with a probability that rises from 0 to 1
  // linearly: as CompositeQueue does in htsim. Urgent packets neither count nor are marked.
  std::uint32_t mark_min = kUnlimited;
  std::uint32_t mark_max = kUnlimited;
  // What doesn't fit goes on without its payload, as an urgent packet of so many bytes; 0: it is
  // dropped.
  std::uint32_t trim_to = 0;
};

struct LinkSettings {
  std::uint64_t bits_per_s = 100 * kGigabit;
  Span latency{};  // of the cable and of the switch at its end
  QueueSettings queue;
};

struct LinkCounters {
  std::uint64_t bytes = 0;    // of packets that were let into the queue
  std::uint32_t packets = 0;  // the same; 2^32 of them are minutes at 400 Gb/s
  std::uint32_t dropped = 0;  // no room
  std::uint32_t trimmed = 0;
  std::uint32_t marked = 0;
  std::uint32_t lost = 0;  // by chance
  std::uint32_t cut = 0;   // it was down when they came, or went down while they were in it
};

class alignas(64) Link {
 public:
  // `end`: what the network calls its far end. `salt`: what its chances are drawn from.
  Link(const LinkSettings& settings, std::uint32_t end, std::uint64_t salt);

  // Returns true if the packet is the first in the link now: it arrives at due().
  // Else it waits for others, or was dropped and given back to the store.
  [[nodiscard]] bool enter(Instant now, PacketId id, PacketStore& packets);
  // The packet that arrives now, as due() says; kNoPacket if it was lost on the way, and has been
  // given back. due() is the next one's.
  [[nodiscard]] PacketId leave(PacketStore& packets);
  // When the first packet arrives; kNever if there is none.
  [[nodiscard]] Instant due() const { return due_; }

  // How long what is in the queue now will take, were nothing to come; for ever if it is down.
  [[nodiscard]] Span backlog(Instant now) const {
    const Instant free = busy_until_ + pace_.time_of(std::uint64_t{waiting_} + waiting_urgent_);
    return free > now ? free - now : Span{};
  }
  // The same without the last so many bytes of what was let in.
  [[nodiscard]] Span backlog_before(Instant now, std::uint64_t bytes) const {
    const Span all = backlog(now);
    const Span last = pace_.time_of(bytes);
    return all > last ? all - last : Span{};
  }
  [[nodiscard]] std::uint32_t end() const { return end_; }
  [[nodiscard]] const LinkCounters& counters() const { return counters_; }

  // Into the cache, for whoever will need it: the link; its first packet; and the one behind it.
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
  // All that is in it is lost, and what comes later, until it has been put up as often as down.
  void put_down(PacketStore& packets);
  void put_up();
  [[nodiscard]] bool is_down() const { return down_ > 0; }
  // Of what has not begun to be sent; kSlowest to kFastest.
  void set_rate(Instant now, std::uint64_t bits_per_s, PacketStore& packets);
  // The probability with which a packet that was sent doesn't arrive, and nobody is told.
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

  Instant busy_until_;  // the end of what was started last; kNever while it is down
  Instant due_ = kNever;
  Pace pace_;
  Span latency_;
  PacketId head_ = kNoPacket;
  PacketId started_ = kNoPacket;      // the last one; none if all in the chain wait or it is empty
  PacketId last_urgent_ = kNoPacket;  // of those that wait
  PacketId tail_ = kNoPacket;
  std::uint32_t waiting_ = 0;  // bytes
  std::uint32_t waiting_urgent_ = 0;
  std::uint32_t end_;
  std::uint32_t sending_ = 0;  // bytes of what was started last; 0 if it was urgent

  QueueSettings queue_;
  std::uint32_t down_ = 0;
  float loss_ = 0;
  std::uint64_t dice_;
  LinkCounters counters_;
};
static_assert(sizeof(Link) == 128, "two cache lines: the first moves packets");

}  // namespace hawser::fabric
