// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/verbs/verbs_nic.hpp"

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

// Control packets are small and few, because acknowledgements and grants are coalesced.
constexpr std::uint32_t kControlReceives = 512;
constexpr std::uint32_t kControlCopies = 64;
constexpr std::uint32_t kDataCopies = 256;
constexpr std::uint32_t kMaxSlots = 16384;
constexpr std::size_t kReapBatch = 32;

std::uint32_t send_slots(const VerbsNicConfig& config) {
  return std::bit_ceil(std::clamp(config.send_slots, 64u, kMaxSlots));
}

// Size of a full packet, at most that of a datagram.
std::uint32_t full_datagram(const VerbsNicConfig& config, const VerbsPort& port) {
  return std::clamp(config.datagram_bytes, 1u, port.facts.mtu_bytes);
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
        "verbs NIC: its configuration is invalid; it needs at least one remote, at least one "
        "entropy, and a QKey below 2^31");
  }
  const std::string complaint = complaint_about_marks(config.traffic_class, config.service_level);
  if (!complaint.empty()) throw Error("verbs:" + to_string(config.port) + ": " + complaint);
  return config;
}

// When the queue pairs fail, every request completes, not only those that asked for it.
std::uint32_t send_entries(const VerbsNicConfig& config) { return 2 * send_slots(config); }

VerbsDestinations::Shape destinations_shape(const VerbsNicConfig& config, const VerbsPort& port) {
  // On InfiniBand a flow label has no effect.
  const bool labels = port.facts.link == VerbsAddress::Link::ethernet;
  return {config.max_remotes,
          labels ? config.entropies : std::uint16_t{1},
          {config.traffic_class, config.service_level}};
}

}  // namespace

VerbsNic::VerbsNic(const VerbsNicConfig& config, proto::PacketPool& pool)
    : pool_(pool),
      port_(open_verbs_port(checked(config).port)),
      regions_(port_.domain.get(), config.max_regions),
      destinations_(port_, destinations_shape(config, port_)),
      resolver_(port_.name, destinations_),
      remotes_(destinations_, config.max_remotes),
      send_completions_(VerbsRepair::make_send_completions(port_, send_entries(config))),
      data_(port_, send_completions_.get(), queue_config(config, port_, Queue::data), remotes_,
            regions_),
      control_(port_, send_completions_.get(), queue_config(config, port_, Queue::control),
               remotes_, regions_),
      repair_({port_, regions_, destinations_, resolver_, send_completions_, data_, control_},
              send_entries(config)),
      helper_(repair_, config) {
  local_.qkey = config.qkey;
  caps_.max_datagram_bytes = port_.facts.mtu_bytes;
  caps_.entropies = destinations_.entropies();
  caps_.needs_checksum = false;  // the ICRC protects packets end to end
  caps_.receive_bytes = std::uint64_t{queue_config(config, port_, Queue::data).receive_slots -
                                      VerbsReceiver::kReserve} *
                        full_datagram(config, port_);
  caps_.link_bytes_per_s = port_.facts.link_bytes_per_s;
  adopt_address();
  (void)restart();  // if the device refuses already now, events report it
}

VerbsNic::~VerbsNic() {
  helper_.stop();
  resolver_.stop();
  for (VerbsQueue* const each : {&data_, &control_}) {
    each->close();
    std::array<std::uint64_t, kReapBatch> cookies;
    while (each->sender().reap(cookies, pool_) > 0) {
    }
  }
}

void VerbsNic::adopt_address() {
  local_.link = port_.facts.link;
  local_.lid = port_.facts.lid;
  local_.gid = port_.facts.gid.gid;
  local_.data_qpn = data_.number();
  local_.control_qpn = control_.number();
  address_ = to_nic_address(local_);
}

VerbsQueueStats VerbsNic::stats(Queue queue) const {
  const VerbsQueue& which = queue == Queue::data ? data_ : control_;
  return {which.sender().stats(), which.receiver().stats()};
}

SendPositions VerbsNic::tails() const { return {data_.sender().tail(), control_.sender().tail()}; }
SendPositions VerbsNic::done() const { return {data_.sender().done(), control_.sender().done()}; }

bool VerbsNic::can_address(const NicAddress& remote) const {
  VerbsAddress parsed;
  return from_nic_address(remote, parsed) && engine::can_address(local_, parsed);
}

Status VerbsNic::open_remote(const NicAddress& remote, RemoteHandle& handle) {
  bool wake = false;
  const Status status = remotes_.open(remote, local_, done(), handle, wake);
  if (wake) resolver_.wake();
  return status;
}

void VerbsNic::close_remote(RemoteHandle handle) { remotes_.close(handle, tails()); }

std::size_t VerbsNic::tx_burst(std::span<const TxPacket> packets) {
  std::size_t done = 0;
  while (done < packets.size()) {
    const std::span<const TxPacket> rest = packets.subspan(done);
    const std::size_t sent = queue(rest.front().queue).sender().send(rest);
    if (sent == 0) break;
    done += sent;
  }
  return done;
}

void VerbsNic::flush() {
  data_.sender().flush();
  control_.sender().flush();
}

bool VerbsNic::arm() {
  const bool data = data_.receiver().arm();
  return control_.receiver().arm() || data;
}

std::size_t VerbsNic::reap(std::span<std::uint64_t> cookies) {
  if (up_) take_send_completions();
  const std::size_t count = data_.sender().reap(cookies, pool_);
  return count + control_.sender().reap(cookies.subspan(count), pool_);
}

void VerbsNic::take_send_completions() {
  int count = 0;
  do {
    count = send_completions_.poll(VerbsCompletions::kMost, [this](const VerbsCompletion& each) {
      queue(VerbsSender::queue_of(each)).sender().complete(each);
    });
  } while (count == VerbsCompletions::kMost);
  if (count < 0) stop();
}

std::size_t VerbsNic::rx_burst(Queue which, std::span<proto::RxPacket> packets) {
  return queue(which).receiver().receive(packets);
}

void VerbsNic::stop() {
  data_.stop();
  control_.stop();
}

void VerbsNic::give_up() {
  data_.sender().give_up();
  control_.sender().give_up();
}

bool VerbsNic::restart() {
  const bool works = data_.restart();
  return control_.restart() && works;
}

std::size_t VerbsNic::events(std::span<NicEvent> events) {
  if (events.empty()) return 0;
  helper_.quiet();
  if (up_) {
    if (helper_.is_sound() && !data_.is_broken() && !control_.is_broken()) return 0;
    take_send_completions();
    stop();
    up_ = false;
    helper_.ask_for_repair(VerbsDamage::pairs);
    events.front() = {NicEvent::Kind::down};
    return 1;
  }
  if (helper_.take_let_go()) give_up();
  if (!helper_.take_repaired()) return 0;
  give_up();
  if (!helper_.is_sound()) {
    helper_.ask_for_repair(VerbsDamage::pairs);
    return 0;
  }
  if (!restart()) {
    stop();
    helper_.ask_for_repair(VerbsDamage::queues);
    return 0;
  }
  adopt_address();
  up_ = true;
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
