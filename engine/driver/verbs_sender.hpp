// The sending side of one UD queue pair. A burst becomes chains of work requests, each handed over
// by one doorbell; header and payload are read where they lie if their memory is registered, and
// are copied next to each other if not; small datagrams travel inside the request.
//
// The reap rule. Only the last request of a chain asks for a completion. A queue pair completes in
// order, so a completion ends all sends before it; and as every chain ends with one, every send is
// reaped without another send having to follow. Sends have positions that run free:
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
#include "engine/driver/verbs_port.hpp"
#include "engine/driver/verbs_regions.hpp"
#include "engine/driver/verbs_remotes.hpp"
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

  // As Nic::tx_burst, for packets of this queue.
  [[nodiscard]] std::size_t send(std::span<const proto::TxPacket> packets);

  // A completion of this queue pair.
  void complete(const ibv_wc& completion);
  [[nodiscard]] static proto::Queue queue_of(const ibv_wc& completion);

  // As Nic::reap.
  [[nodiscard]] std::size_t reap(std::span<std::uint64_t> cookies, proto::PacketPool& pool);
  // Nothing is posted any more until a restart: what is sent is lost.
  void stop() { broken_ = true; }
  // The device has let go of all: everything is done.
  void give_up() { end(tail_); }
  // The queue pair is ready again, and takes sends.
  void restart() { broken_ = false; }

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
  static constexpr std::size_t kMaxParts = 2;

  struct Send {
    proto::PacketBuffer* buffer = nullptr;
    std::uint64_t cookie = proto::TxPacket::kNoCookie;
    VerbsRegion* region = nullptr;  // that its payload is read from
    bool lost = false;              // no request stands for it
    bool copied = false;            // it has a copy slot
  };

  [[nodiscard]] Send& at(std::uint64_t position) { return sends_[position & mask_]; }
  // Builds a chain from the front of `packets`; returns how many it took, lost ones included.
  [[nodiscard]] std::size_t build(std::span<const proto::TxPacket> packets);
  // Null for what can't be sent.
  [[nodiscard]] ibv_ah* handle_of(const proto::TxPacket& packet) const;
  enum class Placed : std::uint8_t { in_place, copied, inlined, no_room };
  // Says where the device finds the bytes, and counts the payload's region, if that is read.
  [[nodiscard]] Placed place(const proto::TxPacket& packet, ibv_send_wr& request,
                             VerbsRegion*& region);
  [[nodiscard]] std::byte* copy_slot(std::uint64_t number) const;
  void post();
  void pass_lost();
  void end(std::uint64_t position);

  ibv_qp* pair_ = nullptr;
  proto::Queue queue_;
  VerbsSendLimits limits_;
  const VerbsRemotes& remotes_;
  VerbsRegions& regions_;
  std::size_t header_hint_ = 0;
  std::size_t payload_hint_ = 0;

  std::uint64_t mask_;
  std::vector<Send> sends_;
  std::uint64_t tail_ = 0;
  std::uint64_t done_ = 0;
  std::uint64_t reaped_ = 0;

  AlignedMemory copies_;
  VerbsMemory copies_registered_;
  std::uint64_t copy_tail_ = 0;  // slots are freed in the order in which they were taken
  std::uint64_t copy_head_ = 0;

  std::array<ibv_send_wr, kMaxChain> requests_{};
  std::array<std::array<ibv_sge, kMaxParts>, kMaxChain> parts_{};
  std::size_t chained_ = 0;
  bool broken_ = false;
  VerbsSendStats stats_;
};

}  // namespace hawser::engine
