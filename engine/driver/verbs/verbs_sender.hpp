// SPDX-License-Identifier: Apache-2.0
// The sending side of one UD queue pair. What is sent becomes chains of work requests, each handed
// over by one doorbell: when it is as long as a chain may be, or at the next flush. Header and
// payload are read where they lie if their memory is registered, and are copied next to each other
// if not; small datagrams travel inside the request. Of a dma-buf neither is done, as the processor
// may have no access to it: what the device can't read there is lost.
//
// The reap rule. Only the last request of a chain asks for a completion. A queue pair completes in
// order, so a completion ends all sends before it; and as every chain ends with one, every send is
// reaped without another send having to follow its flush. Sends have positions that run free:
//   reaped_ <= done_ <= tail_    reaped: out of reap · done: the device reads it no more
// A packet that can't be sent takes a position too, is done as soon as those before it are, and so
// comes out of reap like any other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/driver/aligned_memory.hpp"
#include "engine/driver/verbs/verbs_completions.hpp"
#include "engine/driver/verbs/verbs_port.hpp"
#include "engine/driver/verbs/verbs_poster.hpp"
#include "engine/driver/verbs/verbs_regions.hpp"
#include "engine/driver/verbs/verbs_remotes.hpp"
#include "proto/nic.hpp"

namespace hawser::engine {

struct VerbsSendStats {
  std::uint64_t doorbells = 0;
  std::uint64_t datagrams = 0;
  std::uint64_t completions = 0;
  std::uint64_t inlined = 0;  // datagrams inside their requests
  std::uint64_t copied = 0;   // datagrams of which something was not registered
  std::uint64_t lost = 0;     // datagrams that could not be sent
  std::uint64_t failed = 0;   // completions with an error
  proto::PayloadBytes payload{};
  int last_error = 0;            // ibv_wc_status of the last of those
  std::uint64_t unexpected = 0;  // completions of no send here: the device is confused
};

struct VerbsSendLimits {
  std::uint32_t slots = 0;  // power of two
  std::uint32_t copy_slots = 0;
  std::uint32_t max_datagram_bytes = 0;
  std::uint32_t inline_bytes = 0;
};

class VerbsSender {
 public:
  // All outlive this, but `pair`, which is destroyed first. Throws Error if memory can't be locked.
  VerbsSender(ibv_qp* pair, const VerbsPort& port, proto::Queue queue,
              const VerbsSendLimits& limits, const VerbsRemotes& remotes, VerbsRegions& regions);

  // As Nic::tx_burst, up to the first packet of the other queue; and Nic::flush.
  [[nodiscard]] std::size_t send(std::span<const proto::TxPacket> packets);
  void flush();

  // A completion of this queue pair.
  void complete(const VerbsCompletion& completion);
  [[nodiscard]] static proto::Queue queue_of(const VerbsCompletion& completion);

  // As Nic::reap.
  [[nodiscard]] std::size_t reap(std::span<std::uint64_t> cookies, proto::PacketPool& pool);
  // Nothing is posted any more until a restart: what is sent is lost.
  void stop();
  // The device has let go of all: everything is done.
  void give_up() { done_ = tail_; }
  // The queue pair is ready again, and takes sends.
  void restart();

  // While stopped, in any thread: lets go of the queue pair, which was destroyed, and of what is
  // registered with its device; and takes up another one. Throws Error, as the constructor.
  void detach() { copies_registered_.reset(); }
  void attach(ibv_qp* pair, const VerbsPort& port);

  [[nodiscard]] bool is_broken() const { return broken_; }
  // The positions of the next send, and of the oldest that the device may still read.
  [[nodiscard]] std::uint64_t tail() const { return tail_; }
  [[nodiscard]] std::uint64_t done() const { return done_; }

  [[nodiscard]] const VerbsSendStats& stats() const { return stats_; }

 private:
  static constexpr std::size_t kMaxChain = 32;

  struct Send {
    proto::PacketBuffer* buffer = nullptr;
    std::uint64_t cookie = proto::TxPacket::kNoCookie;
    std::uint64_t* users = nullptr;  // of what its payload lies in; &lost_ if it was not posted
  };
  struct Request {
    ibv_send_wr call;
    std::array<ibv_sge, 2> parts;
  };

  [[nodiscard]] Send& at(std::uint64_t position) { return sends_[position & mask_]; }
  // Null if there is no way there.
  [[nodiscard]] static ibv_ah* handle_of(const VerbsRemote* remote, std::uint16_t entropy);
  // Says where the device finds the bytes. What counts the users of that; null: no room, or, if
  // refused_ is set, no way: a dma-buf's bytes may be copied by nobody.
  [[nodiscard]] std::uint64_t* place(const proto::TxPacket& packet, std::uint64_t bytes,
                                     Request& request);
  [[nodiscard]] std::uint64_t* place_parts(const proto::TxPacket& packet, Request& request);
  [[nodiscard]] std::uint64_t* place_untouched(const proto::TxPacket& packet, Request& request);
  [[nodiscard]] std::uint64_t* place_inline(const proto::TxPacket& packet, Request& request);
  [[nodiscard]] std::uint64_t* place_copy(const proto::TxPacket& packet, Request& request);
  [[nodiscard]] std::byte* copy_slot(std::uint64_t number) const;
  void lose(const proto::TxPacket& packet, Send& send);
  // The packet that place has refused, at this position, ends the burst. The next position.
  [[nodiscard]] std::uint64_t lose_refused(const proto::TxPacket& packet, std::uint64_t position,
                                           Request* request);
  [[nodiscard]] std::size_t lose_all(std::span<const proto::TxPacket> packets);
  // Requests of the chain, from here on.
  void lose_from(const Request* request);
  void post();
  void pass_lost();

  VerbsPoster poster_;
  proto::Queue queue_;
  VerbsSendLimits limits_;
  const VerbsRemotes& remotes_;
  VerbsLookup headers_;
  VerbsLookup payloads_;

  std::uint64_t mask_;
  std::vector<Send> sends_;
  std::uint64_t tail_ = 0;
  std::uint64_t done_ = 0;
  std::uint64_t reaped_ = 0;
  std::uint64_t posted_end_ = 0;  // behind the last that the device was given

  // Of sends that are not reaped:
  std::uint64_t lost_ = 0;      // those that were not posted
  std::uint64_t unshared_ = 0;  // those whose payload needs no counting
  std::uint64_t copied_ = 0;    // those with a copy slot; slots are freed in order
  std::uint64_t copy_tail_ = 0;
  AlignedMemory copies_;
  VerbsMemory copies_registered_;

  std::array<Request, kMaxChain> requests_{};
  Request* next_ = requests_.data();  // those before it are the chain, not posted yet
  bool broken_ = false;
  bool refused_ = false;  // by place, the packet that it was given last
  VerbsSendStats stats_;
};

}  // namespace hawser::engine
