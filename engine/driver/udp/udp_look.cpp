// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/udp/udp_look.hpp"

#include <array>

#include "engine/cancellation.hpp"
#include "proto/base/assert.hpp"

namespace hawser::engine {

using proto::Queue;

namespace {
constexpr std::array kQueues{Queue::data, Queue::control};  // in the order of descriptors()
// Asking the watch costs a system call.
constexpr proto::Duration kFollowInterval = proto::milliseconds(1);
constexpr proto::Duration kRetryInterval = proto::milliseconds(1000);
constexpr proto::Duration kRouteInterval = proto::milliseconds(100);
}  // namespace

void UdpLook::add(UdpNic& nic) {
  std::array<int, kQueues.size()> fds;
  HAWSER_ASSERT(nic.descriptors(fds) == fds.size());
  nics_.push_back(&nic);
  retry_at_.emplace_back();
  nic.follow(*this);
  if (nic.has_device() && !addresses_) {
    addresses_.emplace(UdpWatch::Topic::addresses);
    routes_.emplace(UdpWatch::Topic::routes);
  }
  for (const int fd : fds) {
    attention_.add();
    watched_.push_back({fd, POLLIN, 0});
  }
}

void UdpLook::follow_host() {
  const CancellationHold hold;
  follow_at_ = now_ + kFollowInterval;
  follow_addresses();
  if (now_ < follow_routes_at_) return;
  follow_routes_at_ = now_ + kRouteInterval;
  if (!routes_->take_changes()) return;
  for (UdpNic* nic : nics_) nic->forget_routes();
}

void UdpLook::follow_addresses() {
  const bool changed = addresses_->take_changes();
  for (std::size_t i = 0; i < nics_.size(); ++i) {
    UdpNic& nic = *nics_[i];
    const bool was_lost = nic.is_lost();
    const bool retries = was_lost && now_ >= retry_at_[i];
    if (!changed && !retries) continue;
    nic.look_at_address(retries ? UdpNic::Substitute::any : UdpNic::Substitute::near);
    if (nic.is_lost() && (retries || !was_lost)) retry_at_[i] = now_ + kRetryInterval;
  }
}

void UdpLook::decide_anew() {
  std::size_t queue = 0;
  for (UdpNic* nic : nics_) {
    for (const Queue each : kQueues) {
      if (nic->take_heard(each)) attention_.heard(queue);
      ++queue;
    }
  }
  const bool looks = attention_.begin_turn(now_, due_);
  // Asking a single queue costs as much as a look at it, and also receives its packets.
  const bool one_is_left = attention_.asked() + 1 == attention_.count();
  if (looks && !one_is_left) look();
  queue = 0;
  for (UdpNic* nic : nics_) {
    for (const Queue each : kQueues) {
      const bool readable = looks && (one_is_left || watched_[queue].revents != 0);
      const bool asks = attention_.asks(queue) || readable;
      using enum proto::Nic::Outlook;
      nic->expect(each, asks ? ask : looks ? empty : skip);
      ++queue;
    }
  }
}

void UdpLook::look() {
  for (std::size_t i = 0; i < watched_.size(); ++i) {
    pollfd& watched = watched_[i];
    watched.revents = 0;
    // poll skips negative descriptors.
    if ((watched.fd < 0) != attention_.asks(i)) watched.fd = ~watched.fd;
  }
  const CancellationHold hold;
  if (::poll(watched_.data(), watched_.size(), 0) >= 0) return;
  for (pollfd& watched : watched_) watched.revents = POLLIN;  // interrupted: ask them all
}

}  // namespace hawser::engine
