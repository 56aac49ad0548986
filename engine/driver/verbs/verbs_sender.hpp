// SPDX-License-Identifier: Apache-2.0
// The sending side of one UD queue pair. Sends become chains of work requests. One doorbell hands
// over a chain, when it has its full length or at the next flush. Registered headers and payloads
// are read where they lie; others are copied next to each other. Small datagrams travel inside the
// request. A dma-buf's bytes are never copied, as the processor may have no access to them. If the
// device can't read them there, the packet is lost.
//
// The reap rule. Only the last request of a chain asks for a completion. A queue pair completes in
// order, so a completion ends all sends before it. Every chain ends with such a request, so every
// send is reaped even if no other send follows its flush. Positions of sends increase without
// bound:
//   reaped_ <= done_ <= tail_    reaped: out of reap · done: the device reads it no more.
// A packet that can't be sent takes a position, too. It is done as soon as those before it are, and
// then comes out of reap like any other.
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
  std::uint64_t copied = 0;   // datagrams with a part that was not registered
  std::uint64_t lost = 0;     // datagrams that could not be sent
  std::uint64_t failed = 0;   // completions with an error
  proto::PayloadBytes payload{};
  int last_error = 0;            // ibv_wc_status of the last failed completion
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
  // All outlive this, except `pair`, which is destroyed first. Throws Error if memory can't be
  // locked.
  VerbsSender(ibv_qp* pair, const VerbsPort& port, proto::Queue queue,
              const VerbsSendLimits& limits, const VerbsRemotes& remotes, VerbsRegions& regions);

  // As Nic::tx_burst, up to the first packet of the other queue; and Nic::flush.
  [[nodiscard]] std::size_t send(std::span<const proto::TxPacket> packets);
  void flush();

  // Handles a completion of this queue pair.
  void complete(const VerbsCompletion& completion);
  [[nodiscard]] static proto::Queue queue_of(const VerbsCompletion& completion);

  // As Nic::reap.
  [[nodiscard]] std::size_t reap(std::span<std::uint64_t> cookies, proto::PacketPool& pool);
  // Until a restart nothing is posted, and packets sent are lost.
  void stop();
  // The device has released all sends, so they are done.
  void give_up() { done_ = tail_; }
  // The queue pair is ready again, and takes sends.
  void restart();

  // While stopped, in any thread. detach gives up the destroyed queue pair and the memory
  // registered with its device. attach takes up another pair. Throws Error, as the constructor.
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
    std::uint64_t* users = nullptr;  // counter of its payload's region; &lost_ if it was not posted
  };
  struct Request {
    ibv_send_wr call;
    std::array<ibv_sge, 2> parts;
  };

  [[nodiscard]] Send& at(std::uint64_t position) { return sends_[position & mask_]; }
  // Returns null if the remote can't be reached.
  [[nodiscard]] static ibv_ah* handle_of(const VerbsRemote* remote, std::uint16_t entropy);
  // Tells the device where the bytes are. Returns the counter of their users. Returns null if there
  // is no room or, if refused_ is set, no way: nobody may copy a dma-buf's bytes.
  [[nodiscard]] std::uint64_t* place(const proto::TxPacket& packet, std::uint64_t bytes,
                                     Request& request);
  [[nodiscard]] std::uint64_t* place_parts(const proto::TxPacket& packet, Request& request);
  [[nodiscard]] std::uint64_t* place_untouched(const proto::TxPacket& packet, Request& request);
  [[nodiscard]] std::uint64_t* place_inline(const proto::TxPacket& packet, Request& request);
  [[nodiscard]] std::uint64_t* place_copy(const proto::TxPacket& packet, Request& request);
  [[nodiscard]] std::byte* copy_slot(std::uint64_t number) const;
  void lose(const proto::TxPacket& packet, Send& send);
  // Loses the packet at this position, which place has refused and which ends the burst. Returns
  // the next position.
  [[nodiscard]] std::uint64_t lose_refused(const proto::TxPacket& packet, std::uint64_t position,
                                           Request* request);
  [[nodiscard]] std::size_t lose_all(std::span<const proto::TxPacket> packets);
  // Loses the requests of the chain from this one on.
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
  std::uint64_t posted_end_ = 0;  // end of the requests that the device was given

  // Sends that are not reaped yet:
  std::uint64_t lost_ = 0;      // not posted
  std::uint64_t unshared_ = 0;  // whose payload needs no counting
  std::uint64_t copied_ = 0;    // with a copy slot; slots are freed in order
  std::uint64_t copy_tail_ = 0;
  AlignedMemory copies_;
  VerbsMemory copies_registered_;

  std::array<Request, kMaxChain> requests_{};
  Request* next_ = requests_.data();  // the requests before it are the unposted chain
  bool broken_ = false;
  bool refused_ = false;  // set by place, for the packet that it was given last
  VerbsSendStats stats_;
};

}  // namespace hawser::engine
