#include "engine/driver/verbs_nic.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include "hawser/engine.hpp"

namespace hawser::engine {

using proto::NicAddress;
using proto::NicEvent;
using proto::Queue;
using proto::RemoteHandle;
using proto::TxPacket;

namespace {

// Control packets are small and few: acks and grants are coalesced.
constexpr std::uint32_t kControlReceives = 512;
constexpr std::uint32_t kControlCopies = 64;
constexpr std::uint32_t kDataCopies = 256;
constexpr std::uint32_t kMaxSlots = 16384;
constexpr std::size_t kPollBatch = 32;

std::uint32_t send_slots(const VerbsNicConfig& config) {
  return std::bit_ceil(std::clamp(config.send_slots, 64u, kMaxSlots));
}

// Of a full packet, no longer than a datagram may be.
std::uint32_t full_datagram(const VerbsNicConfig& config, const VerbsPort& port) {
  return std::clamp(config.datagram_bytes, 1u, port.mtu_bytes);
}

VerbsQueueConfig queue_config(const VerbsNicConfig& config, const VerbsPort& port, Queue queue) {
  VerbsQueueConfig result;
  result.queue = queue;
  result.qkey = config.qkey;
  result.send_slots = send_slots(config);
  result.copy_slots = queue == Queue::data ? kDataCopies : kControlCopies;
  result.receive_slots = kControlReceives;
  if (queue == Queue::data) {
    const std::uint64_t wanted = config.receive_bytes / full_datagram(config, port);
    result.receive_slots = static_cast<std::uint32_t>(
        std::clamp<std::uint64_t>(wanted, 64, kMaxSlots - VerbsReceiver::kReserve) +
        VerbsReceiver::kReserve);
  }
  return result;
}

const VerbsNicConfig& checked(const VerbsNicConfig& config) {
  if (config.max_remotes == 0 || config.entropies == 0 || config.qkey >= 0x80000000u) {
    throw Error(
        "verbs NIC: its configuration makes no sense (no remotes, no entropies, or a QKey "
        "of the range that is reserved)");
  }
  return config;
}

VerbsCompletions make_send_completions(const VerbsNicConfig& config, const VerbsPort& port) {
  // Every request completes when the queue pairs fail, not only those that asked for it.
  const std::uint32_t entries = 2 * send_slots(config);
  VerbsCompletions queue(
      ibv_create_cq(port.context.get(), static_cast<int>(entries), nullptr, nullptr, 0));
  if (queue) return queue;
  throw Error(port.name + ": no completion queue of " + std::to_string(entries) +
              " entries can be made: " + std::strerror(errno));
}

VerbsAddress local_address(const VerbsPort& port) {
  VerbsAddress address;
  address.link = port.link;
  address.lid = port.lid;
  address.gid = port.gid.gid;
  return address;
}

}  // namespace

VerbsNic::VerbsNic(const VerbsNicConfig& config, proto::PacketPool& pool)
    : pool_(pool),
      port_(open_verbs_port(checked(config).port)),
      local_(local_address(port_)),
      regions_(port_.domain.get(), config.max_regions),
      // On InfiniBand a flow label changes nothing.
      destinations_(
          port_, config.max_remotes,
          port_.link == VerbsAddress::Link::ethernet ? config.entropies : std::uint16_t{1}),
      remotes_(destinations_, config.max_remotes),
      send_completions_(make_send_completions(config, port_)),
      data_(port_, send_completions_.get(), queue_config(config, port_, Queue::data), remotes_,
            regions_),
      control_(port_, send_completions_.get(), queue_config(config, port_, Queue::control),
               remotes_, regions_),
      helper_(port_, destinations_, [this] { return reset(); }) {
  local_.data_qpn = data_.number();
  local_.control_qpn = control_.number();
  local_.qkey = config.qkey;
  address_ = to_nic_address(local_);
  caps_.max_datagram_bytes = port_.mtu_bytes;
  caps_.entropies = destinations_.entropies();
  caps_.needs_checksum = false;  // ICRC, end to end
  caps_.receive_bytes = std::uint64_t{queue_config(config, port_, Queue::data).receive_slots -
                                      VerbsReceiver::kReserve} *
                        full_datagram(config, port_);
  caps_.link_bytes_per_s = port_.link_bytes_per_s;
}

VerbsNic::~VerbsNic() {
  helper_.stop();
  for (VerbsQueue* const each : {&data_, &control_}) {
    each->close();
    std::array<std::uint64_t, kPollBatch> cookies;
    while (each->sender().reap(cookies, pool_) > 0) {
    }
  }
}

VerbsQueueStats VerbsNic::stats(Queue queue) const {
  const VerbsQueue& which = queue == Queue::data ? data_ : control_;
  return {which.sender().stats(), which.receiver().stats()};
}

SendPositions VerbsNic::tails() const { return {data_.sender().tail(), control_.sender().tail()}; }
SendPositions VerbsNic::done() const { return {data_.sender().done(), control_.sender().done()}; }

Status VerbsNic::open_remote(const NicAddress& remote, RemoteHandle& handle) {
  bool wake = false;
  const Status status = remotes_.open(remote, local_, done(), handle, wake);
  if (wake) helper_.wake();
  return status;
}

void VerbsNic::close_remote(RemoteHandle handle) { remotes_.close(handle, tails()); }

std::size_t VerbsNic::tx_burst(std::span<const TxPacket> packets) {
  std::size_t done = 0;
  while (done < packets.size()) {
    const std::span<const TxPacket> rest = packets.subspan(done);
    const Queue which = rest.front().queue;
    const auto run = static_cast<std::size_t>(
        std::ranges::find_if(rest, [which](const TxPacket& p) { return p.queue != which; }) -
        rest.begin());
    const std::size_t sent = queue(which).sender().send(rest.first(run));
    done += sent;
    if (sent < run) break;
  }
  return done;
}

std::size_t VerbsNic::reap(std::span<std::uint64_t> cookies) {
  take_send_completions();
  const std::size_t count = data_.sender().reap(cookies, pool_);
  return count + control_.sender().reap(cookies.subspan(count), pool_);
}

bool VerbsNic::take_send_completions() {
  std::array<ibv_wc, kPollBatch> completions;
  int count = 0;
  do {
    count = ibv_poll_cq(send_completions_.get(), kPollBatch, completions.data());
    for (int i = 0; i < count; ++i) {
      const ibv_wc& completion = completions[static_cast<std::size_t>(i)];
      queue(VerbsSender::queue_of(completion)).sender().complete(completion);
    }
  } while (count == kPollBatch);
  if (count >= 0) return true;
  stop();
  return false;
}

std::size_t VerbsNic::rx_burst(Queue which, std::span<proto::RxPacket> packets) {
  return queue(which).receiver().receive(packets);
}

bool VerbsNic::reset() { return data_.reset() && control_.reset(); }

void VerbsNic::stop() {
  data_.stop();
  control_.stop();
}

bool VerbsNic::restart() {
  bool works = take_send_completions();
  works = data_.restart() && works;
  works = control_.restart() && works;
  return works && !helper_.has_dead_queue();
}

std::size_t VerbsNic::events(std::span<NicEvent> events) {
  if (events.empty()) return 0;
  helper_.quiet();
  if (helper_.take_failure()) stop();
  const bool broken = data_.is_broken() || control_.is_broken();
  if (health_ == Health::up) {
    if (!broken && helper_.is_port_up()) return 0;
    health_ = Health::down;
    events.front() = {NicEvent::Kind::down};
    return 1;
  }
  if (health_ == Health::down) {
    if (broken) {
      health_ = Health::repairing;
      stop();  // both pairs are reset, also one that has not failed
      helper_.ask_for_repair();
      return 0;
    }
    if (!helper_.is_port_up()) return 0;
  } else {
    if (health_ == Health::dead || !helper_.take_repaired()) return 0;
    if (!restart()) {
      health_ = Health::dead;
      stop();
      return 0;
    }
  }
  health_ = Health::up;
  events.front() = {NicEvent::Kind::up};
  return 1;
}

std::uint64_t VerbsNic::overruns() const {
  return data_.receiver().stats().dry + control_.receiver().stats().dry;
}

std::size_t VerbsNic::descriptors(std::span<int> fds) const {
  const std::array<int, 3> own{data_.receiver().descriptor(), control_.receiver().descriptor(),
                               helper_.descriptor()};
  const std::size_t count = std::min(fds.size(), own.size());
  std::copy_n(own.begin(), count, fds.begin());
  return count;
}

Status VerbsNic::register_memory(const void* data, std::size_t bytes) {
  return regions_.add(data, bytes);
}

void VerbsNic::deregister_memory(const void* data, std::size_t bytes) {
  regions_.remove(data, bytes);
}

Status VerbsNic::pin(const proto::MemoryRange& range, const proto::Mapping* mapping,
                     proto::PinnedMemory*& pinned) {
  return regions_.pin(range, mapping, pinned);
}

void VerbsNic::unpin(proto::PinnedMemory* pinned) {
  regions_.unpin(static_cast<VerbsRegion&>(*pinned));
}

bool VerbsNic::use(proto::PinnedMemory& pinned) {
  return regions_.use(static_cast<VerbsRegion&>(pinned));
}

void VerbsNic::forget(proto::PinnedMemory& pinned) {
  regions_.forget(static_cast<VerbsRegion&>(pinned));
}

bool VerbsNic::is_reading(const proto::PinnedMemory& pinned) const {
  return static_cast<const VerbsRegion&>(pinned).reads > 0;
}

proto::PayloadBytes VerbsNic::payload_bytes() const {
  const proto::PayloadBytes& data = data_.sender().stats().payload;
  const proto::PayloadBytes& control = control_.sender().stats().payload;
  return {data.in_place + control.in_place, data.copied + control.copied};
}

std::unique_ptr<proto::Nic> open_verbs_nic(const VerbsNicConfig& config, proto::PacketPool& pool) {
  return std::make_unique<VerbsNic>(config, pool);
}

}  // namespace hawser::engine
