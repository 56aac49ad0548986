// SPDX-License-Identifier: Apache-2.0
// The fault NIC: wraps any NIC and does to its packets, in both directions, what bad fabrics and
// dying NICs do.
//
// A specification (docs/faults.md) gives faults probabilities, drawn from a seed. A hook can also
// give single packets an exact fate ("drop fragment 7 once"). Without any fault, calls pass
// straight through.
//
// Packets that are held back are copied into the layer's own slots. The sender's buffers are
// therefore free as soon as the send is reaped, and views from rx_burst stay valid as the contract
// requires. Delays need a clock, which the owner provides: it calls set_time before every turn, and
// again at next_release().
//
// Each packet is judged once, and a judged packet counts as accepted. If the inner NIC takes only a
// part of the packets that passed, the others wait in slots and go first next time. Until they have
// gone, the layer accepts nothing more. When the slots run out, senders see back-pressure and
// arrivals are lost.
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

// Called once for every packet while the NIC is alive. If it returns nothing, the packet's fate is
// drawn.
using FaultHook = std::function<std::optional<Fate>(const FaultPacket&)>;

struct FaultNicConfig {
  std::uint64_t seed = 1;
  // Distinguishes NICs with the same seed, for example by the NIC's index.
  std::uint64_t stream = 0;
  // The longest datagram that can be held. caps().max_datagram_bytes is at most this.
  std::uint32_t max_datagram_bytes = 4096 + proto::PacketBuffer::kBytes;
  std::uint32_t held_packets = 1024;  // per direction
  std::uint32_t completions = 4096;   // sends that wait in the fault layer for reap
  std::uint32_t max_remotes = 256;
  FaultHook hook{};
  // Gives the wrapped NIC another address. Without it `revive:moved` is refused.
  std::function<void()> move{};
};

// Counts of the layer's actions, per direction. Never reset.
struct FaultCounts {
  std::uint64_t dropped = 0;  // by loss, black holes, a full link queue or the NIC's death
  std::uint64_t duplicated = 0;
  std::uint64_t corrupted = 0;
  std::uint64_t truncated = 0;
  std::uint64_t reordered = 0;
  std::uint64_t delayed = 0;
  std::uint64_t overflowed = 0;  // arrivals lost because no slot was free or large enough
};

class FaultNic final : public proto::Nic {
 public:
  // `inner` uses the same `pool`, which outlives both.
  FaultNic(std::unique_ptr<proto::Nic> inner, proto::PacketPool& pool, FaultNicConfig config);
  ~FaultNic() override = default;
  FaultNic(const FaultNic&) = delete;
  FaultNic& operator=(const FaultNic&) = delete;

  // Changes the faults. Only the thread that uses the NIC may call it. An error (of
  // parse_fault_spec, or of find_unsupported) names the bad word, and then nothing has changed.
  [[nodiscard]] std::optional<FaultSpecError> apply(std::string_view spec);

  // Sets the time of this turn, and sends what has become due.
  void set_time(proto::Time now);
  // The latest time for the next set_time; kNever if nothing waits for time.
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
  // The driver doesn't know of packets held back here, so the queue must be asked.
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
    if (range.dmabuf >= 0) return Status::unsupported;  // held packets are copied
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
  // Slots to copy the views of one rx_burst into, for both queues. Nothing else uses them.
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
  // A remote stays open while packets to it are held.
  struct Remote {
    std::uint32_t held = 0;
    std::uint32_t closes_waiting = 0;
  };

  [[nodiscard]] Fate judge(Side& side, const FaultPacket& packet);
  static void record(FaultCounts& counts, const Fate& fate);
  // Puts the slot where `fate` makes it wait.
  void place(Side& side, Slot slot, const Fate& fate);
  // Damages the copy in the slot as `fate` demands.
  void damage(Side& side, Slot slot, const Fate& fate);

  // Sending.
  [[nodiscard]] bool sendable(const proto::TxPacket& packet) const;
  // True if one more packet can be judged while `waiting` packets have passed but are not handed
  // over yet.
  [[nodiscard]] bool room_to_judge(std::size_t waiting) const;
  [[nodiscard]] Fate judge(const proto::TxPacket& packet);
  [[nodiscard]] bool tx_passes_through() const;
  [[nodiscard]] Slot hold(const proto::TxPacket& packet);
  void hold_with_fate(const proto::TxPacket& packet, const Fate& fate);
  // Ends the caller's send here: returns the buffer to the pool and queues the cookie.
  void complete(const proto::TxPacket& packet);
  // Hands over packets that passed. Those that the inner NIC refuses become ready, and then it
  // returns false.
  [[nodiscard]] bool send(std::span<const proto::TxPacket> passed);
  // Sends what is ready. Returns false if the inner NIC is full.
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
  // Takes one burst from the inner NIC. Returns true if its ring was seen empty.
  [[nodiscard]] bool receive_once(proto::Queue queue, std::span<proto::RxPacket> out,
                                  std::size_t& count);
  void receive(const proto::RxPacket& packet, std::span<proto::RxPacket> out, std::size_t& count);
  void hand_out_ready(proto::Queue queue, std::span<proto::RxPacket> out, std::size_t& count);
  // Copies views into the inner NIC's memory to slots, so that the inner NIC may be asked again.
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
  std::array<std::vector<Slot>, 2> handed_out_;  // by queue: slots of the last rx_burst's views
  proto::Ring<proto::NicEvent> events_{16};
  // Declared last so that it is destroyed first: until then it may read slots.
  std::unique_ptr<proto::Nic> inner_;
};

}  // namespace hawser::engine
