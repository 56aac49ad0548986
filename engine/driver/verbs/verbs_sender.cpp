// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/verbs/verbs_sender.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "engine/driver/verbs/verbs_locking.hpp"
#include "proto/base/assert.hpp"

namespace hawser::engine {
namespace {

using proto::PacketBuffer;
using proto::Queue;
using proto::TxPacket;

constexpr std::size_t kGiveBatch = 64;

// The number of a request: the send's position and its queue, because both queues complete on one.
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
      headers_(regions),
      payloads_(regions),
      mask_(limits.slots - 1),
      sends_(limits.slots),
      copies_(allocate_aligned(copy_bytes(limits))) {
  attach(pair, port);
  HAWSER_ASSERT((limits.slots & mask_) == 0);
  for (std::size_t i = 0; i < kMaxChain; ++i) {
    Request& request = requests_[i];
    request.call.opcode = IBV_WR_SEND;
    request.call.sg_list = request.parts.data();
    request.call.next = i + 1 < kMaxChain ? &requests_[i + 1].call : nullptr;
  }
}

void VerbsSender::attach(ibv_qp* pair, const VerbsPort& port) {
  copies_registered_ = lock_memory(port, copies_.get(), copy_bytes(limits_), 0);
  poster_.attach(pair);
}

// The datapath. Inlined by hand, because each call would cost a tenth of it.
std::size_t VerbsSender::send(std::span<const TxPacket> packets) {
  packets = packets.first(std::min<std::size_t>(packets.size(), sends_.size() - (tail_ - reaped_)));
  if (broken_) return lose_all(packets);
  headers_.check();
  payloads_.check();
  const std::uint64_t begin = tail_;
  const Queue queue = queue_;
  std::uint64_t position = begin;
  Request* request = next_;
  for (const TxPacket& packet : packets) {
    if (packet.queue != queue) break;
    const VerbsRemote* const remote = remotes_.find(packet.remote);
    ibv_ah* const handle = handle_of(remote, packet.entropy);
    const std::uint64_t bytes = std::uint64_t{packet.header_bytes} + packet.payload_bytes;
    if (handle == nullptr || bytes > limits_.max_datagram_bytes) {
      lose(packet, at(position++));
      continue;
    }
    std::uint64_t* const users = place(packet, bytes, *request);
    if (users == nullptr) {
      if (refused_) return lose_refused(packet, position, request) - begin;
      break;
    }
    ++*users;
    request->call.wr_id = id_of(position, queue);
    request->call.wr.ud = {handle, remote->numbers[static_cast<std::size_t>(queue)], remote->qkey};
    at(position++) = {packet.buffer, packet.cookie, users};
    if (++request < requests_.data() + kMaxChain) continue;
    tail_ = position;
    next_ = request;
    post();
    request = next_;
    if (broken_) break;
  }
  tail_ = position;
  next_ = request;
  pass_lost();
  return position - begin;
}

void VerbsSender::flush() {
  if (next_ == requests_.data()) return;
  if (broken_) {
    lose_from(requests_.data());
    next_ = requests_.data();
  } else {
    post();
  }
  pass_lost();
}

inline ibv_ah* VerbsSender::handle_of(const VerbsRemote* remote, std::uint16_t entropy) {
  if (remote == nullptr) return nullptr;
  std::uint32_t index = entropy;
  if (index >= remote->entropies) index %= remote->entropies;  // a division: keep it rare
  return remote->handles[index].load(std::memory_order_acquire);
}

[[gnu::always_inline]] inline std::uint64_t* VerbsSender::place(const TxPacket& packet,
                                                                std::uint64_t bytes,
                                                                Request& request) {
  return bytes <= limits_.inline_bytes ? place_inline(packet, request)
                                       : place_parts(packet, request);
}

[[gnu::always_inline]] inline std::uint64_t* VerbsSender::place_parts(const TxPacket& packet,
                                                                      Request& request) {
  const std::byte* const header = packet.buffer->bytes;
  const std::byte* const payload = packet.payload;
  const std::uint32_t header_bytes = packet.header_bytes;
  const std::uint32_t payload_bytes = packet.payload_bytes;
  if (!headers_.find(header, header_bytes)) return place_copy(packet, request);
  request.call.send_flags = 0;
  request.call.num_sge = 1;
  request.parts[0] = {address_of(header), header_bytes, headers_.key()};
  if (payload_bytes == 0) return &unshared_;
  if (!payloads_.find(payload, payload_bytes)) return place_copy(packet, request);
  request.call.num_sge = 2;
  request.parts[1] = {address_of(payload), payload_bytes, payloads_.key()};
  stats_.payload.in_place += payload_bytes;
  return payloads_.users();
}

// Puts the payload behind the header if there is room, because providers take one part faster than
// two.
[[gnu::noinline]] std::uint64_t* VerbsSender::place_inline(const TxPacket& packet,
                                                           Request& request) {
  std::byte* const bytes = packet.buffer->bytes;
  if (packet.payload_bytes > 0) {
    if (payloads_.is_untouchable(packet.payload, packet.payload_bytes)) {
      return place_untouched(packet, request);
    }
    std::memcpy(bytes + packet.header_bytes, packet.payload, packet.payload_bytes);
  }
  request.parts[0] = {address_of(bytes), packet.header_bytes + packet.payload_bytes, 0};
  request.call.num_sge = 1;
  request.call.send_flags = IBV_SEND_INLINE;
  ++stats_.inlined;
  return &unshared_;
}

[[gnu::noinline]] std::uint64_t* VerbsSender::place_untouched(const TxPacket& packet,
                                                              Request& request) {
  return place_parts(packet, request);
}

[[gnu::noinline]] std::uint64_t* VerbsSender::place_copy(const TxPacket& packet, Request& request) {
  if (packet.payload_bytes > 0 && payloads_.is_untouchable(packet.payload, packet.payload_bytes)) {
    refused_ = true;
    return nullptr;
  }
  if (copied_ == limits_.copy_slots) return nullptr;
  std::byte* const slot = copy_slot(copy_tail_++);
  std::memcpy(slot, packet.buffer->bytes, packet.header_bytes);
  if (packet.payload_bytes > 0) {
    std::memcpy(slot + packet.header_bytes, packet.payload, packet.payload_bytes);
  }
  request.parts[0] = {address_of(slot), packet.header_bytes + packet.payload_bytes,
                      copies_registered_->lkey};
  request.call.num_sge = 1;
  request.call.send_flags = 0;
  ++stats_.copied;
  stats_.payload.copied += packet.payload_bytes;
  return &copied_;
}

std::byte* VerbsSender::copy_slot(std::uint64_t number) const {
  return copies_.get() + number % limits_.copy_slots * limits_.max_datagram_bytes;
}

[[gnu::noinline]] void VerbsSender::lose(const TxPacket& packet, Send& send) {
  send = {packet.buffer, packet.cookie, &lost_};
  ++lost_;
  ++stats_.lost;
}

[[gnu::noinline]] std::uint64_t VerbsSender::lose_refused(const TxPacket& packet,
                                                          std::uint64_t position,
                                                          Request* request) {
  refused_ = false;
  next_ = request;
  tail_ = position + 1;
  lose(packet, at(position));
  pass_lost();
  return tail_;
}

[[gnu::noinline]] std::size_t VerbsSender::lose_all(std::span<const TxPacket> packets) {
  std::size_t count = 0;
  for (; count < packets.size() && packets[count].queue == queue_; ++count) {
    lose(packets[count], at(tail_++));
  }
  pass_lost();
  return count;
}

void VerbsSender::lose_from(const Request* request) {
  for (; request < next_; ++request) {
    Send& send = at(request->call.wr_id >> 1);
    --*send.users;
    send.users = &lost_;
    ++lost_;
    ++stats_.lost;
  }
}

void VerbsSender::post() {
  ibv_send_wr& last = (next_ - 1)->call;
  ibv_send_wr* const rest = last.next;
  last.next = nullptr;
  last.send_flags |= IBV_SEND_SIGNALED;
  ibv_send_wr* refused = nullptr;
  ++stats_.doorbells;
  const int error = poster_.post(&requests_.front().call, refused);
  last.next = rest;
  posted_end_ = tail_;
  const Request* taken = next_;
  if (error != 0) {
    // No device refuses what fits in its queue, unless something is broken. It took the requests
    // before the refused one, but no later request will complete them.
    broken_ = true;
    taken = requests_.data();
    while (taken < next_ && &taken->call != refused) ++taken;
    lose_from(taken);
  }
  stats_.datagrams += static_cast<std::uint64_t>(taken - requests_.data());
  next_ = requests_.data();
}

void VerbsSender::stop() {
  broken_ = true;
  flush();
}

void VerbsSender::restart() {
  headers_.forget();
  payloads_.forget();
  broken_ = false;
}

void VerbsSender::complete(const VerbsCompletion& completion) {
  ++stats_.completions;
  const std::uint64_t position = completion.id >> 1;
  // A device that has lost count may still read what it was given, so nothing ends before a reset.
  if (position < done_ || position >= posted_end_) {
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
  done_ = position + 1;
  pass_lost();
}

Queue VerbsSender::queue_of(const VerbsCompletion& completion) {
  return static_cast<Queue>(completion.id & 1);
}

void VerbsSender::pass_lost() {
  if (lost_ == 0) return;
  while (done_ < tail_ && at(done_).users == &lost_) ++done_;
}

std::size_t VerbsSender::reap(std::span<std::uint64_t> cookies, proto::PacketPool& pool) {
  std::array<PacketBuffer*, kGiveBatch> buffers;
  std::size_t count = 0;
  while (reaped_ < done_ && count < cookies.size()) {
    const std::size_t batch =
        std::min<std::size_t>({done_ - reaped_, buffers.size(), cookies.size() - count});
    for (std::size_t i = 0; i < batch; ++i) {
      const Send& send = at(reaped_ + i);
      buffers[i] = send.buffer;
      --*send.users;
      if (send.cookie != TxPacket::kNoCookie) cookies[count++] = send.cookie;
    }
    pool.give(std::span(buffers).first(batch));
    reaped_ += batch;
  }
  return count;
}

}  // namespace hawser::engine
