// SPDX-License-Identifier: Apache-2.0
// The receiving side of one UD queue pair: a ring of buffers that the device fills.
//
// A buffer is posted (the device owns it), then lent (handed out; its view is valid until the next
// call), then idle, then posted again, many at a time. Arrivals beyond what the caller asked for
// are pending. The first 40 bytes of a buffer hold the route header (GRH) of InfiniBand, or what
// RoCE puts in its place. They are placed such that the datagram begins on a cache line.
//
// Waiting. The next arrival after arm() makes the descriptor readable, once. Earlier arrivals
// don't, so a thread must poll again after arming. A thread that only polls never arms, and pays
// nothing. The descriptor stays the same when the queue is made anew. It watches the descriptor of
// the queue's channel, or nothing while stopped.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/descriptor.hpp"
#include "engine/driver/aligned_memory.hpp"
#include "engine/driver/verbs/verbs_completions.hpp"
#include "engine/driver/verbs/verbs_port.hpp"
#include "proto/base/ring.hpp"
#include "proto/nic.hpp"

namespace hawser::engine {

struct VerbsReceiveStats {
  std::uint64_t datagrams = 0;
  std::uint64_t doorbells = 0;
  std::uint64_t malformed = 0;   // shorter than any datagram
  std::uint64_t failed = 0;      // completions with an error; their buffers are not posted again
  std::uint64_t unexpected = 0;  // completions of no receive here: the device is confused
  std::uint64_t dry = 0;         // times that no posted buffer was left
};

class VerbsReceiver {
 public:
  // The completion queue and the channel that wakes. They are made before the queue pair.
  struct Completions {
    VerbsChannel channel;
    VerbsCompletions queue;
  };
  // Throws Error.
  [[nodiscard]] static Completions make_completions(const VerbsPort& port, std::uint32_t slots);
  // The kind of a datagram's route header: that of RoCE over IPv4, or any other.
  enum class Route : std::uint8_t { ipv4, other };
  struct Shape {
    proto::Queue queue = proto::Queue::data;
    std::uint32_t slots = 0;
    std::uint32_t max_datagram_bytes = 0;
  };

  // `pair` receives into `completions`, and is destroyed before this. Throws Error if memory can't
  // be locked, or no descriptor can be made.
  VerbsReceiver(ibv_qp* pair, const VerbsPort& port, Completions& completions, const Shape& shape);
  ~VerbsReceiver();
  VerbsReceiver(const VerbsReceiver&) = delete;
  VerbsReceiver& operator=(const VerbsReceiver&) = delete;

  // As Nic::rx_burst.
  [[nodiscard]] std::size_t receive(std::span<proto::RxPacket> packets);

  // As Nic::arm.
  [[nodiscard]] bool arm();

  // Until a restart nothing is posted, and the device's objects aren't touched. Arrivals from
  // before are still handed out.
  void stop();
  // The queue pair was reset or replaced. Arrivals from before stay, and every other buffer is
  // posted. Returns false if the device refuses.
  [[nodiscard]] bool restart(Route route);

  // While stopped, in any thread: as VerbsSender's. The completion queue is destroyed after detach,
  // and exists again before attach.
  void detach() { registered_.reset(); }
  void attach(ibv_qp* pair, const VerbsPort& port);

  [[nodiscard]] int descriptor() const { return watch_.get(); }
  [[nodiscard]] bool is_broken() const { return broken_; }
  [[nodiscard]] const VerbsReceiveStats& stats() const { return stats_; }

  // Buffers that may be unposted without an overrun: lent ones, and those that wait to be posted
  // together.
  static constexpr std::uint32_t kPostBatch = 32;
  static constexpr std::uint32_t kReserve = proto::Nic::kMaxRxBurst + kPostBatch;

 private:
  struct Arrival {
    std::uint32_t slot = 0;
    std::uint32_t bytes = 0;
    bool congestion_experienced = false;
  };

  [[nodiscard]] std::byte* slot(std::uint32_t index) const {
    return memory_.get() + index * stride_;
  }
  struct Post {
    ibv_recv_wr request;
    ibv_sge part;
  };

  // Calls keep(const Arrival&) for all completed arrivals.
  template <class Keep>
  void take_all(Keep keep);
  // Returns false if the completion is not an arrival.
  [[nodiscard]] bool accept(const VerbsCompletion& completion);
  void lend(const Arrival& arrival, std::span<proto::RxPacket> packets);
  void post_idle(std::size_t least);
  // Returns true if there were any events.
  [[nodiscard]] bool consume_events();

  ibv_qp* pair_ = nullptr;
  Completions& completions_;
  Descriptor watch_;  // an epoll instance with the channel's descriptor
  proto::Queue queue_;
  Route route_ = Route::other;
  std::uint32_t slots_;
  std::size_t stride_;
  AlignedMemory memory_;
  VerbsMemory registered_;
  proto::Ring<Arrival> pending_;
  std::array<std::uint32_t, proto::Nic::kMaxRxBurst> lent_{};
  std::uint32_t lent_count_ = 0;
  std::vector<std::uint32_t> idle_;
  std::vector<bool> held_;             // scratch space of restart
  std::vector<std::uint8_t> devices_;  // true if the device has the slot
  std::vector<Post> posts_;            // a receive request for each slot, as it is posted
  std::uint32_t posted_ = 0;
  bool armed_ = false;           // the next arrival raises an event, or an arrival has
  bool fired_ = false;           // armed, and the event may have been raised
  unsigned unacknowledged_ = 0;  // events; libibverbs wants them acknowledged before the end
  bool broken_ = false;
  bool stopped_ = true;
  VerbsReceiveStats stats_;
};

}  // namespace hawser::engine
