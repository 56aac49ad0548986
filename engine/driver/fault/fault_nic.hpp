// SPDX-License-Identifier: Apache-2.0
// The fault NIC: wraps any NIC and does to its packets, both ways, what bad fabrics and dying NICs
// do.
//
// Faults come from a specification (docs/faults.md), by dice with a seed; a hook can give single
// packets an exact fate ("drop fragment 7 once"). Without any fault, calls pass straight through.
//
// What it holds back it has copied into slots of its own: the sender's buffers are free as soon as
// that send is reaped, and views that rx_burst hands out stay valid as the contract says. Holding
// takes time, which the owner tells: set_time before every turn, and again at next_release().
//
// A packet that was judged has been accepted: nothing is judged twice. So where the inner NIC takes
// only a part of what passed, the rest waits in slots, goes first next time, and until it has gone
// nothing more is taken. If the slots run out, sends meet back-pressure; arrivals are lost.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/driver/fault/fault_judge.hpp"
#include "engine/driver/fault/fault_spec.hpp"
#include "engine/driver/fault/held_packets.hpp"
#include "proto/base/ring.hpp"
#include "proto/base/time.hpp"
#include "proto/nic.hpp"

namespace hawser::engine {

enum class Direction : std::uint8_t { tx, rx };

// A packet as the hook sees it.
struct FaultPacket {
  Direction direction = Direction::tx;
  proto::Queue queue = proto::Queue::data;
  proto::RemoteHandle remote = proto::kNoRemote;  // tx only
  std::uint16_t entropy = 0;                      // tx only
  std::span<const std::byte> header;              // tx: the header; rx: the whole datagram
  std::span<const std::byte> payload;             // tx only
};

// Asked once about every packet while the NIC is alive. Nothing: the dice decide.
using FaultHook = std::function<std::optional<Fate>(const FaultPacket&)>;

struct FaultNicConfig {
  std::uint64_t seed = 1;
  // Set apart NICs with the same seed; the NIC's index, say.
  std::uint64_t stream = 0;
  // The longest datagram that may be held, and with it caps().max_datagram_bytes at most.
  std::uint32_t max_datagram_bytes = 4096 + proto::PacketBuffer::kBytes;
  std::uint32_t held_packets = 1024;  // per direction
  std::uint32_t completions = 4096;   // sends that wait in the fault layer for reap
  std::uint32_t max_remotes = 256;
  FaultHook hook{};
  // Gives the NIC that is wrapped another address; without it `revive:moved` is refused.
  std::function<void()> move{};
};

// What was done, per direction; running freely.
struct FaultCounts {
  std::uint64_t dropped = 0;  // by loss, black holes, a full link queue or the NIC's death
  std::uint64_t duplicated = 0;
  std::uint64_t corrupted = 0;
  std::uint64_t truncated = 0;
  std::uint64_t reordered = 0;
  std::uint64_t delayed = 0;
  std::uint64_t overflowed = 0;  // arrivals lost because no slot was free, or too long for one
};

class FaultNic final : public proto::Nic {
 public:
  // `pool` is the pool of `inner` too, and outlives both.
  FaultNic(std::unique_ptr<proto::Nic> inner, proto::PacketPool& pool, FaultNicConfig config);
  ~FaultNic() override = default;
  FaultNic(const FaultNic&) = delete;
  FaultNic& operator=(const FaultNic&) = delete;

  // Changes the faults; the thread that uses the NIC. An error (of parse_fault_spec, or of
  // find_unsupported) names the bad word, and nothing has changed.
  [[nodiscard]] std::optional<FaultSpecError> apply(std::string_view spec);

  // The time of this turn; sends what has become due.
  void set_time(proto::Time now);
  // When set_time should be called next, at the latest; kNever if nothing waits for time.
  [[nodiscard]] proto::Time next_release() const;

  [[nodiscard]] const FaultSettings& settings() const { return settings_; }
  [[nodiscard]] const FaultCounts& counts(Direction direction) const {
    return direction == Direction::tx ? tx_.counts : rx_.counts;
  }

  [[nodiscard]] std::string_view name() const override { return inner_->name(); }
  [[nodiscard]] const proto::NicCaps& caps() const override { return caps_; }
  [[nodiscard]] const proto::NicAddress& address() const override { return inner_->address(); }
  [[nodiscard]] bool can_address(const proto::NicAddress& remote) const override {
    return inner_->can_address(remote);
  }
  [[nodiscard]] Status open_remote(const proto::NicAddress& remote,
                                   proto::RemoteHandle& handle) override;
  void close_remote(proto::RemoteHandle handle) override;
  [[nodiscard]] std::uint32_t max_datagram_to(const proto::NicAddress& remote) override {
    return std::min(caps_.max_datagram_bytes, inner_->max_datagram_to(remote));
  }
  [[nodiscard]] std::size_t tx_burst(std::span<const proto::TxPacket> packets) override;
  [[nodiscard]] std::size_t reap(std::span<std::uint64_t> cookies) override;
  [[nodiscard]] std::size_t rx_burst(proto::Queue queue,
                                     std::span<proto::RxPacket> packets) override;
  // What is held back here the driver doesn't know of.
  [[nodiscard]] Outlook outlook(proto::Queue queue) override {
    return rx_passes_through() ? inner_->outlook(queue) : Outlook::ask;
  }
  [[nodiscard]] std::size_t events(std::span<proto::NicEvent> events) override;
  [[nodiscard]] std::uint64_t overruns() const override { return inner_->overruns(); }
  [[nodiscard]] proto::NicDetours detours() const override { return inner_->detours(); }
  void screen(const proto::Screen& screen) override { inner_->screen(screen); }
  [[nodiscard]] std::uint64_t screened() const override { return inner_->screened(); }
  void flush() override { inner_->flush(); }
  void take_views() override { inner_->take_views(); }
  [[nodiscard]] std::size_t descriptors(std::span<int> fds) const override {
    return inner_->descriptors(fds);
  }
  [[nodiscard]] bool arm() override { return inner_->arm(); }
  [[nodiscard]] Status register_memory(const void* data, std::size_t bytes) override {
    return inner_->register_memory(data, bytes);
  }
  void deregister_memory(const void* data, std::size_t bytes) override {
    inner_->deregister_memory(data, bytes);
  }
  [[nodiscard]] bool pins_memory() const override { return inner_->pins_memory(); }
  [[nodiscard]] Status pin(const proto::MemoryRange& range, const proto::Mapping* mapping,
                           proto::PinnedMemory*& pinned) override {
    if (range.dmabuf >= 0) return Status::unsupported;  // what is held back is copied
    return inner_->pin(range, mapping, pinned);
  }
  void unpin(proto::PinnedMemory* pinned) override { inner_->unpin(pinned); }
  [[nodiscard]] bool use(proto::PinnedMemory& pinned) override { return inner_->use(pinned); }
  void forget(proto::PinnedMemory& pinned) override { inner_->forget(pinned); }
  [[nodiscard]] bool is_reading(const proto::PinnedMemory& pinned) const override {
    return inner_->is_reading(pinned);
  }
  [[nodiscard]] proto::PayloadBytes payload_bytes() const override {
    return inner_->payload_bytes();
  }

 private:
  using Slot = HeldPackets::Slot;
  // Slots for views of one rx_burst that must be copied, for both queues; nothing else takes them.
  static constexpr std::size_t kStagingSlots = 2 * kMaxRxBurst;
  struct Side {
    FaultJudge judge;
    HeldPackets held;
    FaultCounts counts{};
  };
  struct Completion {
    std::uint64_t cookie = 0;
    proto::Time due{};
  };
  // Packets to a remote that are held keep it open.
  struct Remote {
    std::uint32_t held = 0;
    std::uint32_t closes_waiting = 0;
  };

  [[nodiscard]] Fate judge(Side& side, const FaultPacket& packet);
  static void record(FaultCounts& counts, const Fate& fate);
  // Puts the slot where `fate` wants it to wait.
  void place(Side& side, Slot slot, const Fate& fate);
  // Does to the copy in the slot the damage that `fate` asks for.
  void damage(Side& side, Slot slot, const Fate& fate);

  // Sending.
  [[nodiscard]] bool sendable(const proto::TxPacket& packet) const;
  // Whether one more packet can be judged while `waiting` that passed are not handed over yet.
  [[nodiscard]] bool room_to_judge(std::size_t waiting) const;
  [[nodiscard]] Fate judge(const proto::TxPacket& packet);
  [[nodiscard]] bool tx_passes_through() const;
  [[nodiscard]] Slot hold(const proto::TxPacket& packet);
  void hold_with_fate(const proto::TxPacket& packet, const Fate& fate);
  // Ends the caller's send here: gives the buffer back and queues the cookie.
  void complete(const proto::TxPacket& packet);
  // Hands over what passed; what the inner NIC doesn't take becomes ready. False if anything did.
  [[nodiscard]] bool send(std::span<const proto::TxPacket> passed);
  // Sends what is ready. False if the inner NIC is full.
  bool send_ready();
  [[nodiscard]] std::size_t send_held(proto::Ring<Slot>& ready);
  void forget_remote_of(Slot slot);
  void discard_held();

  // Reaping.
  void collect();
  [[nodiscard]] std::size_t completion_room() const {
    return completions_.capacity() - completions_.size();
  }
  [[nodiscard]] Slot own_slot(std::uint64_t cookie) const;

  // Receiving.
  [[nodiscard]] bool rx_passes_through() const;
  [[nodiscard]] Slot hold(const proto::RxPacket& packet);
  // One burst of the inner NIC. True if its ring was seen empty.
  [[nodiscard]] bool receive_once(proto::Queue queue, std::span<proto::RxPacket> out,
                                  std::size_t& count);
  void receive(const proto::RxPacket& packet, std::span<proto::RxPacket> out, std::size_t& count);
  void hand_out_ready(proto::Queue queue, std::span<proto::RxPacket> out, std::size_t& count);
  // Moves views into the inner NIC's memory to slots, so that it may be asked again.
  void stage(std::span<proto::RxPacket> packets);
  [[nodiscard]] proto::RxPacket hand_out(Slot slot);

  proto::PacketPool& pool_;
  FaultHook hook_;
  std::function<void()> move_;
  std::uint64_t stream_;
  proto::NicCaps caps_;
  FaultSettings settings_;
  proto::Time now_{};
  Side tx_;
  Side rx_;
  std::vector<Remote> remotes_;
  proto::Ring<Completion> completions_;
  std::size_t own_sends_ = 0;                    // slots that the inner NIC is sending from
  std::array<std::vector<Slot>, 2> handed_out_;  // by queue: slots behind the last rx_burst's views
  proto::Ring<proto::NicEvent> events_{16};
  // Last, so that it goes first: until then it may read slots.
  std::unique_ptr<proto::Nic> inner_;
};

}  // namespace hawser::engine
