// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/udp/udp_nic.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/driver/udp/udp_look.hpp"
#include "hawser/engine.hpp"
#include "proto/base/assert.hpp"

namespace hawser::engine {

using proto::NicAddress;
using proto::PacketBuffer;
using proto::Queue;
using proto::RemoteHandle;
using proto::TxPacket;

namespace {

constexpr std::size_t kGiveBatch = 64;
// Full messages that one system call should send. Entering the kernel costs up to a fifth of
// sending one of them. Larger bursts would only fit into a larger, slower cache.
constexpr std::uint32_t kMessagesPerCall = 4;

// Largest UDP payload: a datagram, or a segmented message as a whole.
std::uint32_t max_message(const SocketAddress& local) {
  return kMaxIpBytes - udp_headers(local.is_v6());
}

std::uint32_t max_datagram(const SocketAddress& local, const std::string& name) {
  const std::uint32_t headers = udp_headers(local.is_v6());
  const std::uint32_t mtu = interface_mtu(local);
  if (mtu <= headers + PacketBuffer::kBytes) {
    throw Error(name + ": its interface has an MTU of " + std::to_string(mtu) +
                " bytes, too small for a packet header");
  }
  return std::min(mtu - headers, max_message(local));
}

}  // namespace

UdpNic::Port::Port(UdpNic& nic, const UdpNicConfig& config, Queue queue)
    : socket(nic.local_, config.receive_bytes, nic.name_),
      segments(config.segment && socket.can_segment()),
      sender(socket.fd(), nic.local_, queue,
             {segments, nic.max_datagram_bytes_, max_message(nic.local_)},
             {[&nic](const SocketAddress& to) { return nic.whole_bytes_to(to); },
              [&nic](UdpRemote& remote) { nic.choose_device(remote); }},
             nic.remotes_, nic.addresses_),
      receiver(socket.fd(), queue) {
  if (config.coalesce) socket.coalesce();
}

UdpNic::UdpNic(const UdpNicConfig& config, proto::PacketPool& pool)
    : pool_(pool),
      name_("udp:" + config.address),
      local_(parse_local_address(config.address)),
      device_(device_of(local_)),
      home_(home_at(local_)),
      max_datagram_bytes_(max_datagram(local_, name_)),
      remotes_(config.max_remotes),
      addresses_(config.max_remotes),
      data_(*this, config, Queue::data),
      control_(*this, config, Queue::control),
      ways_(local_, name_),
      address_(to_nic_address(data_.socket.address(), control_.socket.address())),
      screens_(config.screen),
      cookies_(config.send_slots) {
  if (has_device()) routes_.emplace(name_);
  const std::uint32_t datagram = std::clamp(config.datagram_bytes, 1u, max_datagram_bytes_);
  caps_.max_datagram_bytes = max_datagram_bytes_;
  caps_.payload_bytes = max_datagram_bytes_;
  if (data_.segments) {
    const std::uint32_t segments = std::clamp(max_message(local_) / datagram, 1u, kMaxSegments);
    caps_.burst = segments * std::min(kMessagesPerCall, kMaxSegments / segments);
  }
  caps_.needs_checksum = config.checksum;
  caps_.receive_bytes = datagram_bytes_in(data_.socket.receive_buffer(), datagram);
}

UdpQueueStats UdpNic::stats(Queue queue) const {
  return {port(queue).sender.stats(), port(queue).receiver.stats()};
}

bool UdpNic::can_address(const NicAddress& remote) const {
  UdpRemote parsed;
  return from_nic_address(remote, local_, parsed.data, parsed.control);
}

Status UdpNic::open_remote(const NicAddress& remote, RemoteHandle& handle) {
  UdpRemote parsed;
  if (!from_nic_address(remote, local_, parsed.data, parsed.control)) {
    return Status::invalid_argument;
  }
  const RemoteTable::Opened opened = remotes_.open(remote);
  if (opened.handle == proto::kNoRemote) return Status::again;
  if (opened.is_new) {
    // Asked later: a remote that is only sent away costs nothing more (udp_sender.cpp).
    parsed.is_device_known = !has_device();
    addresses_[static_cast<std::size_t>(opened.handle)] = parsed;
  }
  handle = opened.handle;
  return Status::ok;
}

void UdpNic::close_remote(RemoteHandle handle) {
  if (remotes_.close(handle)) set_device(addresses_[static_cast<std::size_t>(handle)], 0);
}

std::uint32_t UdpNic::device_to(const SocketAddress& remote) {
  return routes_ ? routes_->device_to_name(device_.index, local_, remote) : 0;
}

std::uint32_t UdpNic::whole_bytes_to(const SocketAddress& remote) {
  return ways_.longest_whole_datagram(local_, remote, device_to(remote));
}

void UdpNic::set_device(UdpRemote& remote, std::uint32_t device) {
  if (remote.device != 0) --named_;
  if (device != 0) ++named_;
  remote.device = device;
}

void UdpNic::choose_device(UdpRemote& remote) {
  set_device(remote, device_to(remote.data));
  remote.is_device_known = true;
  expect_own_device();
}

// Arrivals by another device are a detour only while some remote's packets keep to this one.
void UdpNic::expect_own_device() {
  const std::uint32_t expected = named_ > 0 ? device_.index : 0;
  for (Port* port : {&data_, &control_}) port->receiver.expect_device(expected, local_.is_v6());
}

void UdpNic::forget_routes() {
  if (!has_device()) return;
  for (UdpRemote& remote : addresses_) {
    remote.is_device_known = false;
    remote.whole_bytes = UdpRemote::kUnknownBytes;
  }
  have_ways_changed_ = true;
}

std::uint32_t UdpNic::max_datagram_to(const NicAddress& remote) {
  UdpRemote parsed;
  if (!from_nic_address(remote, local_, parsed.data, parsed.control)) return max_datagram_bytes_;
  const std::uint32_t whole = whole_bytes_to(parsed.data);
  return whole == 0 ? max_datagram_bytes_ : std::min(whole, max_datagram_bytes_);
}

std::size_t UdpNic::tx_burst(std::span<const TxPacket> packets) {
  packets =
      packets.first(std::min<std::size_t>(packets.size(), cookies_.capacity() - cookies_.size()));
  if (!here_) {  // lost: without the address the kernel would choose another source
    complete(packets);
    return packets.size();
  }
  std::size_t done = 0;
  while (done < packets.size()) {
    const std::span<const TxPacket> rest = packets.subspan(done);
    const Queue queue = rest.front().queue;
    const auto run = static_cast<std::size_t>(
        std::find_if(rest.begin(), rest.end(),
                     [queue](const TxPacket& packet) { return packet.queue != queue; }) -
        rest.begin());
    const std::size_t sent = port(queue).sender.send(rest.first(run));
    complete(rest.first(sent));
    done += sent;
    if (sent < run) break;
  }
  return done;
}

void UdpNic::complete(std::span<const TxPacket> packets) {
  std::array<PacketBuffer*, kGiveBatch> buffers;
  while (!packets.empty()) {
    const std::size_t count = std::min(packets.size(), buffers.size());
    for (std::size_t i = 0; i < count; ++i) {
      buffers[i] = packets[i].buffer;
      if (packets[i].cookie != TxPacket::kNoCookie) {
        cookies_.put(packets[i].cookie);
      }
    }
    pool_.give(std::span(buffers).first(count));
    packets = packets.subspan(count);
  }
}

std::size_t UdpNic::reap(std::span<std::uint64_t> cookies) {
  const std::size_t count = std::min<std::size_t>(cookies.size(), cookies_.size());
  for (std::size_t i = 0; i < count; ++i) cookies[i] = cookies_.pop();
  return count;
}

std::size_t UdpNic::rx_burst(Queue queue, std::span<proto::RxPacket> packets) {
  Port& from = port(queue);
  const std::size_t count = from.receiver.receive(packets);
  from.heard |= count > 0;
  return count;
}

proto::Nic::Outlook UdpNic::outlook(Queue queue) {
  if (look_ != nullptr) look_->decide();
  return port(queue).outlook;
}

std::uint64_t UdpNic::overruns() const {
  return data_.receiver.overruns() + control_.receiver.overruns();
}

proto::NicDetours UdpNic::detours() const {
  proto::NicDetours sum;
  for (const Port* port : {&data_, &control_}) {
    const UdpSendStats& sent = port->sender.stats();
    sum.fragmented += sent.fragmented;
    sum.segmentation_refused += sent.unsegmented;
    sum.segmentation_resumed += sent.resumed;
    sum.by_other_devices += port->receiver.stats().by_other_devices;
  }
  return sum;
}

std::optional<UdpWayNews> UdpNic::take_news() {
  std::optional<UdpWayNews> news = data_.sender.take_news();
  return news ? news : control_.sender.take_news();
}

void UdpNic::look_at_address(Substitute substitute) {
  if (!has_device()) return;
  follow_device();
  const bool is_kept = is_usable(local_);
  const Closeness present = is_kept ? closeness_of(local_, home_) : Closeness::none;
  std::optional<SocketAddress> better;
  if (is_kept && present < Closeness::same) {
    better = closest_address(home_, device_, closer_than(present));
  } else if (!is_kept) {
    const bool any = substitute == Substitute::any;
    better =
        closest_address(home_, device_, any ? Closeness::other_scope : Closeness::same_network);
  }
  if (is_kept && !better) {
    if (!here_) return_at(local_);
    return;
  }
  fell_ |= here_;
  here_ = false;
  if (better) return_at(*better);
}

void UdpNic::follow_device() {
  UdpDevice device = device_of(local_, device_.index);
  if (device.index == 0) device = device_again(device_);
  const bool is_another = device.index != device_.index;
  device_ = std::move(device);
  if (!is_another) return;
  if (is_link_local(home_.address)) home_.address.v6.sin6_scope_id = device_.index;
  forget_routes();
  expect_own_device();
}

void UdpNic::return_at(const SocketAddress& address) {
  if (!bound_ || !is_same_ip(address, local_)) {
    bound_ = rebind(address);
    if (!bound_) return;
  }
  here_ = true;
  told_here_ = false;
  follow_device();
  for (std::size_t i = 0; i < addresses_.size(); ++i) {
    if (!remotes_.is_open(static_cast<RemoteHandle>(i))) continue;
    UdpRemote& remote = addresses_[i];
    if (is_link_local(remote.data)) {  // it is on the link of this NIC
      remote.data.v6.sin6_scope_id = local_.v6.sin6_scope_id;
      remote.control.v6.sin6_scope_id = local_.v6.sin6_scope_id;
    }
    choose_device(remote);
  }
}

bool UdpNic::rebind(const SocketAddress& address) {
  screened_before_ = screened();
  data_.screen.reset();
  control_.screen.reset();
  if (!data_.socket.rebind(address) || !control_.socket.rebind(address)) return false;
  local_ = address;
  address_ = to_nic_address(data_.socket.address(), control_.socket.address());
  if (screen_) screen(*screen_);
  return true;
}

std::size_t UdpNic::events(std::span<proto::NicEvent> events) {
  std::size_t count = 0;
  if (fell_ && count < events.size()) {
    events[count++] = {proto::NicEvent::Kind::down};
    fell_ = false;
  }
  if (!fell_ && here_ && !told_here_ && count < events.size()) {
    events[count++] = {proto::NicEvent::Kind::up};
    told_here_ = true;
  }
  for (Port* port : {&data_, &control_}) have_ways_changed_ |= port->sender.take_way_changes();
  if (have_ways_changed_ && count < events.size()) {
    events[count++] = {proto::NicEvent::Kind::ways};
    have_ways_changed_ = false;
  }
  return count;
}

void UdpNic::screen(const proto::Screen& screen) {
  screen_ = screen;
  if (!screens_) return;
  data_.screen.emplace(data_.socket.fd(), data_.socket.address(), screen, Queue::data);
  control_.screen.emplace(control_.socket.fd(), control_.socket.address(), screen, Queue::control);
}

std::uint64_t UdpNic::screened() const {
  return screened_before_ + (data_.screen ? data_.screen->count() : 0) +
         (control_.screen ? control_.screen->count() : 0);
}

std::size_t UdpNic::descriptors(std::span<int> fds) const {
  const std::array<int, 2> own{data_.socket.fd(), control_.socket.fd()};
  const std::size_t count = std::min(fds.size(), own.size());
  std::copy_n(own.begin(), count, fds.begin());
  return count;
}

}  // namespace hawser::engine
