// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/verbs/verbs_receiver.hpp"

#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "engine/cancellation.hpp"
#include "engine/driver/verbs/verbs_locking.hpp"
#include "engine/system_error.hpp"
#include "hawser/engine.hpp"
#include "proto/base/assert.hpp"

namespace hawser::engine {
namespace {

using proto::RxPacket;

constexpr std::uint32_t kGrhBytes = 40;
// The datagram begins on the slot's second cache line.
constexpr std::size_t kDataOffset = kCacheLine;
constexpr std::size_t kGrhOffset = kDataOffset - kGrhBytes;

std::size_t stride_of(std::uint32_t datagram_bytes) {
  return kDataOffset + (datagram_bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

// On InfiniBand and RoCE over IPv6 an IPv6 header is there. On RoCE over IPv4 there are 20
// undefined bytes, which may look like one, and then the IP header.
bool is_marked(const std::byte* grh, VerbsReceiver::Route route) {
  constexpr unsigned kCongestionExperienced = 3;
  const auto byte = [grh](std::size_t i) { return std::to_integer<unsigned>(grh[i]); };
  const unsigned traffic_class =
      route == VerbsReceiver::Route::ipv4 ? byte(21) : (byte(0) & 0xf) << 4 | byte(1) >> 4;
  return (traffic_class & kCongestionExperienced) == kCongestionExperienced;
}

Descriptor make_watch(const VerbsPort& port) {
  Descriptor watch(::epoll_create1(EPOLL_CLOEXEC));
  if (!watch) throw system_error(port.name + ": a wake-up descriptor can't be created");
  return watch;
}

}  // namespace

VerbsReceiver::Completions VerbsReceiver::make_completions(const VerbsPort& port,
                                                           std::uint32_t slots) {
  ibv_context* const context = port.context.get();
  Completions made;
  made.channel.reset(ibv_create_comp_channel(context));
  if (!made.channel) {
    throw Error(port.name + ": a completion channel can't be created: " + std::strerror(errno));
  }
  const int flags = ::fcntl(made.channel->fd, F_GETFL);
  (void)::fcntl(made.channel->fd, F_SETFL, flags | O_NONBLOCK);
  made.queue = VerbsCompletions(port, slots, made.channel.get());
  if (!made.queue) {
    throw Error(port.name + ": a completion queue of " + std::to_string(slots) +
                " entries can't be created: " + reason_of_refusal(errno));
  }
  return made;
}

VerbsReceiver::VerbsReceiver(ibv_qp* pair, const VerbsPort& port, Completions& completions,
                             const Shape& shape)
    : completions_(completions),
      watch_(make_watch(port)),
      queue_(shape.queue),
      slots_(shape.slots),
      stride_(stride_of(shape.max_datagram_bytes)),
      memory_(allocate_aligned(slots_ * stride_)),
      pending_(slots_),
      held_(slots_, false),
      devices_(slots_, false),
      posts_(slots_) {
  idle_.reserve(slots_);
  attach(pair, port);
}

VerbsReceiver::~VerbsReceiver() { stop(); }

void VerbsReceiver::attach(ibv_qp* pair, const VerbsPort& port) {
  registered_ = lock_memory(port, memory_.get(), slots_ * stride_, IBV_ACCESS_LOCAL_WRITE);
  for (std::uint32_t index = 0; index < slots_; ++index) {
    Post& post = posts_[index];
    post.part = {reinterpret_cast<std::uint64_t>(slot(index) + kGrhOffset),
                 static_cast<std::uint32_t>(stride_ - kGrhOffset), registered_->lkey};
    post.request = {index, nullptr, &post.part, 1};
  }
  pair_ = pair;
  armed_ = fired_ = false;  // the new queue has no armed notification
}

void VerbsReceiver::stop() {
  if (stopped_) return;
  take_all([this](const Arrival& arrival) { pending_.put(arrival); });
  // Completions after this point are not arrivals, and must not wake anybody.
  (void)::epoll_ctl(watch_.get(), EPOLL_CTL_DEL, completions_.channel->fd, nullptr);
  // Destroying the queue would wait for this acknowledgement.
  if (unacknowledged_ > 0) ibv_ack_cq_events(completions_.queue.get(), unacknowledged_);
  unacknowledged_ = 0;
  broken_ = stopped_ = true;
}

std::size_t VerbsReceiver::receive(std::span<RxPacket> packets) {
  packets = packets.first(std::min(packets.size(), proto::Nic::kMaxRxBurst));
  idle_.insert(idle_.end(), lent_.begin(), lent_.begin() + lent_count_);
  lent_count_ = 0;
  while (lent_count_ < packets.size() && !pending_.empty()) lend(pending_.pop(), packets);
  if (!stopped_) {
    take_all([&](const Arrival& arrival) {
      if (lent_count_ < packets.size()) return lend(arrival, packets);
      pending_.put(arrival);
    });
    post_idle(kPostBatch);
  }
  stats_.datagrams += lent_count_;
  return lent_count_;
}

void VerbsReceiver::lend(const Arrival& arrival, std::span<RxPacket> packets) {
  packets[lent_count_] = {slot(arrival.slot) + kDataOffset, arrival.bytes, queue_,
                          arrival.congestion_experienced};
  lent_[lent_count_++] = arrival.slot;
}

bool VerbsReceiver::restart(Route route) {
  route_ = route;
  epoll_event readable{};
  readable.events = EPOLLIN;
  if (::epoll_ctl(watch_.get(), EPOLL_CTL_ADD, completions_.channel->fd, &readable) != 0) {
    broken_ = true;
    return false;
  }
  broken_ = stopped_ = false;
  // A completion may have raised an event before, or may raise one before the next arm.
  fired_ = armed_;
  std::fill(held_.begin(), held_.end(), false);
  for (const std::uint32_t index : std::span(lent_).first(lent_count_)) held_[index] = true;
  for (std::uint32_t i = 0; i < pending_.size(); ++i) held_[pending_.at(i).slot] = true;
  idle_.clear();
  for (std::uint32_t i = slots_; i-- > 0;) {
    if (!held_[i]) idle_.push_back(i);
  }
  std::fill(devices_.begin(), devices_.end(), false);
  posted_ = 0;
  post_idle(1);
  return !broken_;
}

// Takes all completions before anything is posted, so that it shows when the device has no buffer
// left.
template <class Keep>
void VerbsReceiver::take_all(Keep keep) {
  constexpr int kMost = VerbsCompletions::kMost;
  bool any = false;
  int count = kMost;
  while (count == kMost) {
    count = completions_.queue.poll(kMost, [&](const VerbsCompletion& completion) {
      if (!accept(completion)) return;
      const auto index = static_cast<std::uint32_t>(completion.id);
      keep(Arrival{index, completion.bytes - kGrhBytes,
                   completion.has_route_header && is_marked(slot(index) + kGrhOffset, route_)});
    });
    any = any || count > 0;
  }
  broken_ = broken_ || count < 0;
  if (!any) return;
  fired_ = armed_;
  if (posted_ == 0 && !broken_) ++stats_.dry;
}

bool VerbsReceiver::accept(const VerbsCompletion& completion) {
  // A confused device must not lead us outside of the ring, or make us lend a buffer twice.
  if (completion.id >= slots_ || !devices_[completion.id]) {
    broken_ = true;
    ++stats_.unexpected;
    return false;
  }
  devices_[completion.id] = false;
  --posted_;
  if (completion.status != IBV_WC_SUCCESS) {
    broken_ = true;
    ++stats_.failed;
    return false;
  }
  if (completion.opcode != IBV_WC_RECV || completion.bytes > stride_ - kGrhOffset) {
    broken_ = true;
    ++stats_.unexpected;
    return false;
  }
  if (completion.bytes <= kGrhBytes) {
    ++stats_.malformed;
    idle_.push_back(static_cast<std::uint32_t>(completion.id));
    return false;
  }
  return true;
}

// Posts from the end, where the slots are that were used last and are still in the cache.
void VerbsReceiver::post_idle(std::size_t least) {
  while (!broken_ && !idle_.empty() && idle_.size() >= least) {
    const std::size_t count = std::min<std::size_t>(idle_.size(), kPostBatch);
    ibv_recv_wr* chain = nullptr;
    for (const std::uint32_t index : std::span(idle_).last(count)) {
      posts_[index].request.next = chain;
      chain = &posts_[index].request;
      devices_[index] = true;
    }
    ibv_recv_wr* refused = nullptr;
    ++stats_.doorbells;
    std::size_t left = 0;
    if (ibv_post_recv(pair_, chain, &refused) != 0) {
      broken_ = true;
      for (ibv_recv_wr* each = refused; each != nullptr; each = each->next, ++left) {
        devices_[each->wr_id] = false;
      }
    }
    idle_.erase(idle_.end() - static_cast<std::ptrdiff_t>(count - left), idle_.end());
    posted_ += static_cast<std::uint32_t>(count - left);
  }
}

bool VerbsReceiver::arm() {
  if (stopped_) return false;
  if (fired_ && consume_events()) armed_ = fired_ = false;
  // If something has arrived since, its event is still to come, and wakes the thread.
  if (armed_) return false;
  if (ibv_req_notify_cq(completions_.queue.get(), 0) != 0) {
    broken_ = true;
    return true;
  }
  armed_ = true;
  return true;
}

bool VerbsReceiver::consume_events() {
  const CancellationHold hold;
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  unsigned count = 0;
  while (ibv_get_cq_event(completions_.channel.get(), &queue, &context) == 0) ++count;
  unacknowledged_ += count;
  return count > 0;
}

}  // namespace hawser::engine
