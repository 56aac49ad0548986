#include "engine/driver/verbs_sender.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "engine/driver/verbs_locking.hpp"
#include "proto/assert.hpp"

namespace hawser::engine {
namespace {

using proto::PacketBuffer;
using proto::Queue;
using proto::TxPacket;

constexpr std::size_t kGiveBatch = 64;

// The number of a request: the send's position, and the queue, as both complete on one queue.
std::uint64_t id_of(std::uint64_t position, Queue queue) {
  return position << 1 | static_cast<std::uint64_t>(queue);
}

std::size_t copy_bytes(const VerbsSendLimits& limits) {
  return std::size_t{limits.copy_slots} * limits.max_datagram_bytes;
}

std::uint64_t address_of(const std::byte* bytes) { return reinterpret_cast<std::uint64_t>(bytes); }

}  // namespace

VerbsSender::VerbsSender(ibv_qp* pair, const VerbsPort& port, Queue queue,
                         const VerbsSendLimits& limits, const VerbsRemotes& remotes,
                         VerbsRegions& regions)
    : queue_(queue),
      limits_(limits),
      remotes_(remotes),
      regions_(regions),
      mask_(limits.slots - 1),
      sends_(limits.slots),
      copies_(allocate_aligned(copy_bytes(limits))) {
  attach(pair, port);
  HAWSER_ASSERT((limits.slots & mask_) == 0);
  for (std::size_t i = 0; i < kMaxChain; ++i) {
    requests_[i].opcode = IBV_WR_SEND;
    requests_[i].sg_list = parts_[i].data();
    requests_[i].next = i + 1 < kMaxChain ? &requests_[i + 1] : nullptr;
  }
}

void VerbsSender::attach(ibv_qp* pair, const VerbsPort& port) {
  copies_registered_ = lock_memory(port, copies_.get(), copy_bytes(limits_), 0);
  pair_ = pair;
}

std::size_t VerbsSender::send(std::span<const TxPacket> packets) {
  std::size_t taken = 0;
  while (taken < packets.size()) {
    const std::size_t count = build(packets.subspan(taken));
    if (count == 0) break;
    post();
    taken += count;
  }
  pass_lost();
  return taken;
}

std::size_t VerbsSender::build(std::span<const TxPacket> packets) {
  packets = packets.first(
      std::min<std::size_t>({packets.size(), kMaxChain, sends_.size() - (tail_ - reaped_)}));
  std::size_t count = 0;
  for (const TxPacket& packet : packets) {
    Send send{packet.buffer, packet.cookie};
    ibv_ah* const handle = handle_of(packet);
    if (handle == nullptr) {
      send.lost = true;
      ++stats_.lost;
    } else {
      ibv_send_wr& request = requests_[chained_];
      const Placed placed = place(packet, request, send.region);
      if (placed == Placed::no_room) break;
      send.copied = placed == Placed::copied;
      const VerbsRemote& remote = remotes_.at(packet.remote);
      request.wr_id = id_of(tail_, queue_);
      request.wr.ud.ah = handle;
      request.wr.ud.remote_qpn =
          queue_ == Queue::data ? remote.address.data_qpn : remote.address.control_qpn;
      request.wr.ud.remote_qkey = remote.address.qkey;
      ++chained_;
    }
    at(tail_++) = send;
    ++count;
  }
  return count;
}

ibv_ah* VerbsSender::handle_of(const TxPacket& packet) const {
  const std::uint64_t bytes = std::uint64_t{packet.header_bytes} + packet.payload_bytes;
  if (broken_ || bytes > limits_.max_datagram_bytes || !remotes_.is_open(packet.remote)) {
    return nullptr;
  }
  const std::span<const VerbsHandle> handles = remotes_.at(packet.remote).handles;
  std::size_t entropy = packet.entropy;
  if (entropy >= handles.size()) entropy %= handles.size();  // a division costs as much as the rest
  return handles[entropy].load(std::memory_order_acquire);
}

VerbsSender::Placed VerbsSender::place(const TxPacket& packet, ibv_send_wr& request,
                                       VerbsRegion*& region) {
  ibv_sge* const parts = request.sg_list;
  const std::byte* const header = packet.buffer->bytes;
  parts[0] = {address_of(header), packet.header_bytes, 0};
  parts[1] = {address_of(packet.payload), packet.payload_bytes, 0};
  request.num_sge = packet.payload_bytes > 0 ? 2 : 1;
  request.send_flags = 0;
  if (packet.header_bytes + packet.payload_bytes <= limits_.inline_bytes) {
    request.send_flags = IBV_SEND_INLINE;
    ++stats_.inlined;
    return Placed::inlined;
  }
  VerbsRegion* const payload =
      packet.payload_bytes == 0
          ? nullptr
          : regions_.find(packet.payload, packet.payload_bytes, payload_hint_);
  const VerbsRegion* const headers = regions_.find(header, packet.header_bytes, header_hint_);
  if (headers != nullptr && (payload != nullptr || packet.payload_bytes == 0)) {
    parts[0].lkey = headers->key;
    if (payload != nullptr) {
      parts[1].lkey = payload->key;
      ++payload->reads;
      region = payload;
    }
    stats_.payload.in_place += packet.payload_bytes;
    return Placed::in_place;
  }
  if (copy_tail_ - copy_head_ == limits_.copy_slots) return Placed::no_room;
  std::byte* const slot = copy_slot(copy_tail_++);
  std::memcpy(slot, header, packet.header_bytes);
  if (packet.payload_bytes > 0) {
    std::memcpy(slot + packet.header_bytes, packet.payload, packet.payload_bytes);
  }
  parts[0] = {address_of(slot), packet.header_bytes + packet.payload_bytes,
              copies_registered_->lkey};
  request.num_sge = 1;
  ++stats_.copied;
  stats_.payload.copied += packet.payload_bytes;
  return Placed::copied;
}

std::byte* VerbsSender::copy_slot(std::uint64_t number) const {
  return copies_.get() + number % limits_.copy_slots * limits_.max_datagram_bytes;
}

void VerbsSender::post() {
  if (chained_ == 0) return;
  ibv_send_wr& last = requests_[chained_ - 1];
  ibv_send_wr* const rest = last.next;
  last.next = nullptr;
  last.send_flags |= IBV_SEND_SIGNALED;
  ibv_send_wr* refused = nullptr;
  ++stats_.doorbells;
  const int error = ibv_post_send(pair_, requests_.data(), &refused);
  last.next = rest;
  stats_.datagrams += chained_;
  if (error != 0) {
    // No device refuses what fits in its queue, unless something is broken. The requests before
    // the refused one were taken; nothing follows that would complete them.
    broken_ = true;
    for (ibv_send_wr* request = refused; request != nullptr && request <= &last; ++request) {
      at(request->wr_id >> 1).lost = true;
      ++stats_.lost;
      --stats_.datagrams;
    }
  }
  chained_ = 0;
}

void VerbsSender::complete(const ibv_wc& completion) {
  ++stats_.completions;
  const std::uint64_t position = completion.wr_id >> 1;
  // A device that has lost count may still read what it was given: nothing ends before a reset.
  if (position < done_ || position >= tail_) {
    ++stats_.unexpected;
    broken_ = true;
    return;
  }
  if (completion.status != IBV_WC_SUCCESS) {
    ++stats_.failed;
    stats_.last_error = completion.status;
    broken_ = true;
  } else if (completion.opcode != IBV_WC_SEND) {
    ++stats_.unexpected;
    broken_ = true;
    return;
  }
  end(position + 1);
  pass_lost();
}

Queue VerbsSender::queue_of(const ibv_wc& completion) {
  return static_cast<Queue>(completion.wr_id & 1);
}

void VerbsSender::end(std::uint64_t position) {
  for (; done_ < position; ++done_) {
    const Send& send = at(done_);
    copy_head_ += send.copied ? 1 : 0;
    if (send.region != nullptr) --send.region->reads;
  }
}

void VerbsSender::pass_lost() {
  while (done_ < tail_ && at(done_).lost) end(done_ + 1);
}

std::size_t VerbsSender::reap(std::span<std::uint64_t> cookies, proto::PacketPool& pool) {
  std::array<PacketBuffer*, kGiveBatch> buffers;
  std::size_t held = 0;
  std::size_t count = 0;
  for (; reaped_ < done_; ++reaped_) {
    const Send& send = at(reaped_);
    if (send.cookie != TxPacket::kNoCookie) {
      if (count == cookies.size()) break;
      cookies[count++] = send.cookie;
    }
    buffers[held++] = send.buffer;
    if (held == buffers.size()) {
      pool.give(buffers);
      held = 0;
    }
  }
  if (held > 0) pool.give(std::span(buffers).first(held));
  return count;
}

}  // namespace hawser::engine
