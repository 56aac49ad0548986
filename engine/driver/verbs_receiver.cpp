#include "engine/driver/verbs_receiver.hpp"

#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "engine/driver/verbs_locking.hpp"
#include "engine/system_error.hpp"
#include "hawser/engine.hpp"
#include "proto/assert.hpp"

namespace hawser::engine {
namespace {

using proto::RxPacket;

constexpr std::uint32_t kGrhBytes = 40;
// The datagram begins on the slot's second cache line.
constexpr std::size_t kDataOffset = kCacheLine;
constexpr std::size_t kGrhOffset = kDataOffset - kGrhBytes;
constexpr int kPollBatch = 64;

std::size_t stride_of(std::uint32_t datagram_bytes) {
  return kDataOffset + (datagram_bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

// RoCE over IPv6 and InfiniBand have an IPv6 header there; RoCE over IPv4 has 20 bytes of anything,
// which may look like one, and then the IP header.
bool is_marked(const std::byte* grh, VerbsReceiver::Route route) {
  constexpr unsigned kCongestionExperienced = 3;
  const auto byte = [grh](std::size_t i) { return std::to_integer<unsigned>(grh[i]); };
  const unsigned traffic_class =
      route == VerbsReceiver::Route::ipv4 ? byte(21) : (byte(0) & 0xf) << 4 | byte(1) >> 4;
  return (traffic_class & kCongestionExperienced) == kCongestionExperienced;
}

Descriptor make_watch(const VerbsPort& port) {
  Descriptor watch(::epoll_create1(EPOLL_CLOEXEC));
  if (!watch) throw system_error(port.name + ": no descriptor can be made that wakes");
  return watch;
}

}  // namespace

VerbsReceiver::Completions VerbsReceiver::make_completions(const VerbsPort& port,
                                                           std::uint32_t slots) {
  ibv_context* const context = port.context.get();
  Completions made;
  made.channel.reset(ibv_create_comp_channel(context));
  if (!made.channel) {
    throw Error(port.name + ": no completion channel can be made: " + std::strerror(errno));
  }
  const int flags = ::fcntl(made.channel->fd, F_GETFL);
  (void)::fcntl(made.channel->fd, F_SETFL, flags | O_NONBLOCK);
  made.queue.reset(ibv_create_cq(context, static_cast<int>(slots), nullptr, made.channel.get(), 0));
  if (!made.queue) {
    throw Error(port.name + ": no completion queue of " + std::to_string(slots) +
                " entries can be made: " + std::strerror(errno));
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
      devices_(slots_, false) {
  lent_.reserve(slots_);
  idle_.reserve(slots_);
  attach(pair, port);
}

VerbsReceiver::~VerbsReceiver() { stop(); }

void VerbsReceiver::attach(ibv_qp* pair, const VerbsPort& port) {
  registered_ = lock_memory(port, memory_.get(), slots_ * stride_, IBV_ACCESS_LOCAL_WRITE);
  // The channel of before has closed its descriptor, which so is watched no more.
  epoll_event readable{};
  readable.events = EPOLLIN;
  if (::epoll_ctl(watch_.get(), EPOLL_CTL_ADD, completions_.channel->fd, &readable) != 0) {
    throw system_error(port.name + ": its completion channel can't be watched");
  }
  pair_ = pair;
}

void VerbsReceiver::stop() {
  if (stopped_) return;
  (void)drain();
  // Whoever destroys the queue would wait for this.
  if (unacknowledged_ > 0) ibv_ack_cq_events(completions_.queue.get(), unacknowledged_);
  unacknowledged_ = 0;
  broken_ = stopped_ = true;
}

std::size_t VerbsReceiver::receive(std::span<RxPacket> packets) {
  packets = packets.first(std::min(packets.size(), proto::Nic::kMaxRxBurst));
  idle_.insert(idle_.end(), lent_.begin(), lent_.end());
  lent_.clear();
  if (stopped_) return hand_out(packets);
  drain();
  post_idle(kPostBatch);
  std::size_t count = hand_out(packets);
  if (count == packets.size() || waking_ == Waking::armed) return count;
  arm();
  if (drain() == Drained::some) count += hand_out(packets.subspan(count));
  return count;
}

bool VerbsReceiver::restart(Route route) {
  route_ = route;
  broken_ = stopped_ = false;
  // What wakes may be left of what was taken from the device; or its queue is another one.
  if (waking_ != Waking::idle) consume_event();
  waking_ = Waking::idle;
  std::fill(held_.begin(), held_.end(), false);
  for (const std::uint32_t index : lent_) held_[index] = true;
  for (std::uint32_t i = 0; i < pending_.size(); ++i) held_[pending_.at(i).slot] = true;
  idle_.clear();
  for (std::uint32_t i = slots_; i-- > 0;) {
    if (!held_[i]) idle_.push_back(i);
  }
  std::fill(devices_.begin(), devices_.end(), false);
  posted_ = 0;
  post_idle(1);
  arm();
  return !broken_;
}

bool VerbsReceiver::discard(ibv_cq* queue) {
  std::array<ibv_wc, kPollBatch> completions;
  int count = 0;
  do {
    count = ibv_poll_cq(queue, kPollBatch, completions.data());
  } while (count > 0);
  return count == 0;
}

VerbsReceiver::Drained VerbsReceiver::drain() {
  std::array<ibv_wc, kPollBatch> completions;
  bool any = false;
  for (;;) {
    const int count = ibv_poll_cq(completions_.queue.get(), kPollBatch, completions.data());
    if (count < 0) {
      broken_ = true;
      return Drained::refused;
    }
    if (count == 0) break;
    any = true;
    for (const ibv_wc& completion : std::span(completions).first(static_cast<std::size_t>(count))) {
      accept(completion);
    }
    if (count < kPollBatch) break;
  }
  if (any && waking_ == Waking::armed) waking_ = Waking::fired;
  if (any && posted_ == 0 && !broken_) ++stats_.dry;
  return any ? Drained::some : Drained::none;
}

void VerbsReceiver::accept(const ibv_wc& completion) {
  // Nothing that a confused device says may lead out of the ring, or lend a buffer twice.
  if (completion.wr_id >= slots_ || !devices_[completion.wr_id]) {
    broken_ = true;
    ++stats_.unexpected;
    return;
  }
  const auto index = static_cast<std::uint32_t>(completion.wr_id);
  devices_[index] = false;
  --posted_;
  if (completion.status != IBV_WC_SUCCESS) {
    broken_ = true;
    ++stats_.failed;
    return;
  }
  if (completion.opcode != IBV_WC_RECV || completion.byte_len > stride_ - kGrhOffset) {
    broken_ = true;
    ++stats_.unexpected;
    return;
  }
  if (completion.byte_len <= kGrhBytes) {
    ++stats_.malformed;
    idle_.push_back(index);
    return;
  }
  const bool has_header = (completion.wc_flags & IBV_WC_GRH) != 0;
  HAWSER_ASSERT(pending_.push({index, completion.byte_len - kGrhBytes,
                               has_header && is_marked(slot(index) + kGrhOffset, route_)}));
}

std::size_t VerbsReceiver::hand_out(std::span<RxPacket> packets) {
  std::size_t count = 0;
  while (count < packets.size() && !pending_.empty()) {
    const Arrival arrival = pending_.pop();
    packets[count++] = {slot(arrival.slot) + kDataOffset, arrival.bytes, queue_,
                        arrival.congestion_experienced};
    lent_.push_back(arrival.slot);
  }
  stats_.datagrams += count;
  return count;
}

void VerbsReceiver::post_idle(std::size_t least) {
  std::array<ibv_recv_wr, kPostBatch> requests;
  std::array<ibv_sge, kPostBatch> parts;
  while (!broken_ && idle_.size() >= least) {
    const std::size_t count = std::min<std::size_t>(idle_.size(), kPostBatch);
    if (count == 0) return;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t index = idle_[idle_.size() - 1 - i];
      parts[i] = {reinterpret_cast<std::uint64_t>(slot(index) + kGrhOffset),
                  static_cast<std::uint32_t>(stride_ - kGrhOffset), registered_->lkey};
      requests[i] = {index, i + 1 < count ? &requests[i + 1] : nullptr, &parts[i], 1};
    }
    ibv_recv_wr* refused = nullptr;
    ++stats_.doorbells;
    std::size_t taken = count;
    if (ibv_post_recv(pair_, requests.data(), &refused) != 0) {
      broken_ = true;
      taken = refused == nullptr ? 0 : static_cast<std::size_t>(refused - requests.data());
    }
    for (std::size_t i = 0; i < taken; ++i) devices_[requests[i].wr_id] = true;
    idle_.resize(idle_.size() - taken);
    posted_ += static_cast<std::uint32_t>(taken);
  }
}

void VerbsReceiver::arm() {
  if (waking_ == Waking::fired) consume_event();
  if (waking_ != Waking::idle) return;
  if (ibv_req_notify_cq(completions_.queue.get(), 0) != 0) {
    broken_ = true;
    return;
  }
  waking_ = Waking::armed;
}

void VerbsReceiver::consume_event() {
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  if (ibv_get_cq_event(completions_.channel.get(), &queue, &context) != 0) return;
  ++unacknowledged_;
  waking_ = Waking::idle;
}

}  // namespace hawser::engine
