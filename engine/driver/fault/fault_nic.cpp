// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/fault/fault_nic.hpp"

#include <algorithm>
#include <utility>

#include "hawser/engine.hpp"
#include "proto/base/assert.hpp"

namespace hawser::engine {

using proto::NicAddress;
using proto::NicEvent;
using proto::RemoteHandle;
using proto::Time;

namespace {

// Longest time that a reordered packet waits, if no later packet comes to overtake it.
constexpr proto::Duration kReorderPatience = proto::milliseconds(1);

std::uint64_t seed_of(std::uint64_t seed, std::uint64_t stream, Direction direction) {
  return seed ^ ((2 * stream + static_cast<std::uint64_t>(direction)) * 0x9e3779b97f4a7c15u);
}

std::uint32_t held_bytes(const proto::Nic& inner, const FaultNicConfig& config) {
  if (config.max_datagram_bytes < proto::PacketBuffer::kBytes || config.held_packets < 2 ||
      config.completions == 0 || config.max_remotes == 0) {
    throw Error("fault NIC: a size in its configuration is too small");
  }
  return std::min(config.max_datagram_bytes, inner.caps().max_datagram_bytes);
}

}  // namespace

FaultNic::FaultNic(std::unique_ptr<proto::Nic> inner, proto::PacketPool& pool,
                   FaultNicConfig config)
    : pool_(pool),
      hook_(std::move(config.hook)),
      move_(std::move(config.move)),
      stream_(config.stream),
      caps_(inner->caps()),
      tx_{FaultJudge(seed_of(config.seed, stream_, Direction::tx)),
          HeldPackets(config.held_packets, held_bytes(*inner, config))},
      rx_{FaultJudge(seed_of(config.seed, stream_, Direction::rx)),
          HeldPackets(config.held_packets + kStagingSlots, held_bytes(*inner, config))},
      remotes_(config.max_remotes),
      completions_(config.completions),
      inner_(std::move(inner)) {
  caps_.max_datagram_bytes = held_bytes(*inner_, config);
  for (auto& slots : handed_out_) slots.reserve(kMaxRxBurst);
}

std::optional<FaultSpecError> FaultNic::apply(std::string_view spec) {
  FaultSettings settings = settings_;
  FaultActions actions;
  if (auto error = parse_fault_spec(spec, settings, actions)) return error;
  if (auto error = find_unsupported(settings, caps_)) return error;
  if (actions.moves && !move_) {
    return FaultSpecError{"revive:moved", "needs a NIC whose address can change"};
  }
  if (actions.moves) move_();
  // If nobody reads events, dropping the seventeenth does no harm.
  if (actions.event && !events_.full()) events_.put({*actions.event});
  if (actions.seed) {
    tx_.judge.seed(seed_of(*actions.seed, stream_, Direction::tx));
    rx_.judge.seed(seed_of(*actions.seed, stream_, Direction::rx));
  }
  if (settings.dead && !settings_.dead) discard_held();
  settings_ = settings;
  tx_.judge.set(settings.tx);
  rx_.judge.set(settings.rx);
  return std::nullopt;
}

void FaultNic::set_time(Time now) {
  now_ = now;
  tx_.held.advance(now);
  rx_.held.advance(now);
  if (tx_.held.any_ready()) send_ready();
}

Time FaultNic::next_release() const {
  if (tx_.held.any_ready() || rx_.held.any_ready()) return now_;
  const Time due = proto::earlier(tx_.held.next_due(), rx_.held.next_due());
  return completions_.empty() ? due : proto::earlier(due, completions_.front().due);
}

std::size_t FaultNic::events(std::span<NicEvent> events) {
  std::size_t count = 0;
  while (count < events.size() && !events_.empty()) events[count++] = events_.pop();
  return count + inner_->events(events.subspan(count));
}

Fate FaultNic::judge(Side& side, const FaultPacket& packet) {
  if (settings_.dead) return Fate{.drop = true};
  if (hook_) {
    if (const std::optional<Fate> fate = hook_(packet)) return *fate;
  }
  if (side.judge.idle()) return {};
  return side.judge.judge(packet.header.size() + packet.payload.size(), now_);
}

void FaultNic::record(FaultCounts& counts, const Fate& fate) {
  if (fate.drop) {
    ++counts.dropped;
    return;
  }
  counts.duplicated += fate.duplicate;
  counts.corrupted += fate.corrupt;
  counts.truncated += fate.truncate;
  counts.reordered += fate.overtaken_by > 0;
  counts.delayed += fate.overtaken_by == 0 && fate.delay.ns > 0;
}

void FaultNic::damage(Side& side, Slot slot, const Fate& fate) {
  HeldPacket& packet = side.held[slot];
  if (fate.corrupt) side.judge.flip_bits({packet.data, packet.bytes});
  if (fate.truncate) {
    packet.bytes = side.judge.shorter(packet.bytes);
    packet.header_bytes = std::min(packet.header_bytes, packet.bytes);
  }
}

void FaultNic::place(Side& side, Slot slot, const Fate& fate) {
  if (fate.overtaken_by > 0) {
    side.held.hold_behind(slot, fate.overtaken_by, now_ + fate.delay + kReorderPatience);
  } else if (fate.delay.ns > 0) {
    side.held.hold_until(slot, now_ + fate.delay);
  } else {
    side.held.make_ready(slot);
  }
}

// Held packets are lost with the NIC. Those that the inner NIC is sending can't be taken back.
void FaultNic::discard_held() {
  for (Side* side : {&tx_, &rx_}) {
    side->held.release_all();
    for (const proto::Queue queue : {proto::Queue::data, proto::Queue::control}) {
      proto::Ring<Slot>& ready = side->held.ready(queue);
      while (!ready.empty()) {
        const Slot slot = ready.pop();
        if (side == &tx_) forget_remote_of(slot);
        side->held.free(slot);
        ++side->counts.dropped;
      }
    }
  }
}

Status FaultNic::open_remote(const NicAddress& remote, RemoteHandle& handle) {
  RemoteHandle inner = proto::kNoRemote;
  if (const Status status = inner_->open_remote(remote, inner); status != Status::ok) return status;
  if (static_cast<std::size_t>(inner) >= remotes_.size()) {
    inner_->close_remote(inner);
    return Status::again;
  }
  handle = inner;
  return Status::ok;
}

void FaultNic::close_remote(RemoteHandle handle) {
  const auto index = static_cast<std::size_t>(handle);
  if (index < remotes_.size() && remotes_[index].held > 0) {
    ++remotes_[index].closes_waiting;
  } else {
    inner_->close_remote(handle);
  }
}

void FaultNic::forget_remote_of(Slot slot) {
  const RemoteHandle handle = tx_.held[slot].remote;
  Remote& remote = remotes_[static_cast<std::size_t>(handle)];
  if (--remote.held > 0) return;
  for (; remote.closes_waiting > 0; --remote.closes_waiting) inner_->close_remote(handle);
}

}  // namespace hawser::engine
