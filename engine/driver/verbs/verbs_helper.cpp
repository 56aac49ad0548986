// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/verbs/verbs_helper.hpp"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "engine/background_thread.hpp"
#include "engine/driver/event_descriptor.hpp"

namespace hawser::engine {
namespace {

constexpr int kRetryMilliseconds = 250;
// Refusals of a repair in a row, after which more of the NIC is made anew.
constexpr unsigned kMostRefusals = 8;
constexpr std::chrono::seconds kLookEvery{1};

}  // namespace

VerbsHelper::VerbsHelper(VerbsRepair& repair, const VerbsNicConfig& config)
    : repair_(repair),
      clock_(config.clock),
      wake_(make_event_descriptor(repair.port().name)),
      news_(make_event_descriptor(repair.port().name)),
      damping_(config.longest_hold) {
  listen();
  thread_ = start_background_thread("hawser-verbs", [this] { run(); });
}

VerbsHelper::~VerbsHelper() { stop(); }

void VerbsHelper::stop() {
  if (!thread_.joinable()) return;
  stopping_.store(true, std::memory_order_release);
  raise_event(wake_.get());
  thread_.join();
}

void VerbsHelper::ask_for_repair(VerbsDamage least) {
  let_go_.store(false, std::memory_order_relaxed);
  asked_.store(least, std::memory_order_relaxed);
  state_.store(State::asked, std::memory_order_release);
  raise_event(wake_.get());
}

bool VerbsHelper::take_let_go() {
  return let_go_.load(std::memory_order_relaxed) &&
         let_go_.exchange(false, std::memory_order_acquire);
}

bool VerbsHelper::take_repaired() {
  if (state_.load(std::memory_order_acquire) != State::done) return false;
  state_.store(State::none, std::memory_order_relaxed);
  return true;
}

void VerbsHelper::tell() {
  // Set it again after the raise, since quiet() could take the news before the descriptor is
  // raised. Set it before, too: a thread woken by the raise must be able to quiet the descriptor.
  has_news_.store(true, std::memory_order_release);
  raise_event(news_.get());
  has_news_.store(true, std::memory_order_release);
}

void VerbsHelper::quiet() {
  if (has_news_.load(std::memory_order_relaxed) &&
      has_news_.exchange(false, std::memory_order_acquire)) {
    lower_event(news_.get());
  }
}

void VerbsHelper::listen() {
  events_ = repair_.port().context->async_fd;
  (void)::fcntl(events_, F_SETFL, ::fcntl(events_, F_GETFL) | O_NONBLOCK);
}

int VerbsHelper::retry_milliseconds() const {
  const auto held = std::chrono::ceil<std::chrono::milliseconds>(damping_.left(clock_()));
  if (held.count() == 0) return kRetryMilliseconds;
  return static_cast<int>(std::min<std::int64_t>(held.count(), kRetryMilliseconds));
}

void VerbsHelper::run() {
  while (!stopping_.load(std::memory_order_acquire)) {
    std::array<pollfd, 2> fds{{{wake_.get(), POLLIN, 0}, {events_, POLLIN, 0}}};
    const bool repairing = state_.load(std::memory_order_acquire) == State::asked;
    (void)::poll(fds.data(), fds.size(), repairing ? retry_milliseconds() : -1);
    if (fds[0].revents != 0) lower_event(wake_.get());
    if (fds[1].revents != 0 && !read_events()) {
      events_ = -1;  // the device was removed
      damage(VerbsDamage::device);
    }
    if (state_.load(std::memory_order_acquire) == State::asked) serve();
  }
}

void VerbsHelper::serve() {
  if (!repairing_) {
    repairing_ = true;
    damping_.failed(clock_());
  }
  damage_ = std::max({damage_, asked_.load(std::memory_order_relaxed), VerbsDamage::pairs});
  if (taken_ < damage_) take_from_device();
  if (taken_ == damage_) restore();
}

void VerbsHelper::take_from_device() {
  if (!repair_.take(damage_)) return refused();
  taken_ = damage_;
  let_go_.store(true, std::memory_order_release);
  tell();
}

void VerbsHelper::restore() {
  const bool anew = damage_ == VerbsDamage::device;
  if (anew) events_ = -1;  // the descriptor is closed
  if (!anew && !is_up_) return look_for_device();
  if (is_held()) {
    if (anew) repair_.drop_device();  // the driver may wait for this before it removes the device
    return look_for_device();
  }
  switch (repair_.restore(damage_)) {
    case VerbsRepair::Outcome::refused: return refused();
    case VerbsRepair::Outcome::not_yet: return look_for_device();
    case VerbsRepair::Outcome::done: break;
  }
  if (anew) {
    listen();
    is_up_ = true;
    port_up_.store(true, std::memory_order_release);
  }
  damage_ = taken_ = VerbsDamage::none;
  refusals_ = 0;
  repairing_ = false;
  damping_.came_up(clock_());
  asked_.store(VerbsDamage::none, std::memory_order_relaxed);
  damaged_.store(false, std::memory_order_release);
  state_.store(State::done, std::memory_order_release);
  tell();
}

void VerbsHelper::refused() {
  look_for_device();
  if (++refusals_ < kMostRefusals || damage_ == VerbsDamage::device) return;
  refusals_ = 0;
  damage_ = VerbsDamage{static_cast<std::uint8_t>(static_cast<std::uint8_t>(damage_) + 1)};
}

// A driver that can't take a device from its users announces no removal, so look for the device.
void VerbsHelper::look_for_device() {
  if (damage_ == VerbsDamage::device || Clock::now() - looked_at_ < kLookEvery) return;
  looked_at_ = Clock::now();
  if (!repair_.is_present()) damage_ = VerbsDamage::device;
}

bool VerbsHelper::read_events() {
  ibv_async_event event{};
  while (ibv_get_async_event(repair_.port().context.get(), &event) == 0) {
    take(event);
    ibv_ack_async_event(&event);
  }
  const bool more = errno == EAGAIN || errno == EINTR;
  if (look_) look_at_port();
  if (is_up_ != port_up_.load(std::memory_order_relaxed)) {
    port_up_.store(is_up_, std::memory_order_release);
    tell();
  }
  return more;
}

void VerbsHelper::take(const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
      if (event.element.port_num != repair_.port().number()) return;
      is_up_ = event.event_type == IBV_EVENT_PORT_ACTIVE;
      if (is_up_) damping_.port_came_up(clock_());
      look_ = true;
      return;
    case IBV_EVENT_GID_CHANGE:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
      look_ = look_ || event.element.port_num == repair_.port().number();
      return;
    case IBV_EVENT_DEVICE_FATAL: return damage(VerbsDamage::device);
    case IBV_EVENT_CQ_ERR: return damage(VerbsDamage::queues);
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR: return damage(VerbsDamage::pairs);
    default: return;
  }
}

// Skipped while the port is down or a repair runs, because both look at the port when they end.
void VerbsHelper::look_at_port() {
  look_ = false;
  if (!is_up_ || state_.load(std::memory_order_acquire) == State::asked) return;
  if (!repair_.is_as_known()) damage(VerbsDamage::pairs);
}

void VerbsHelper::damage(VerbsDamage least) {
  damage_ = std::max(damage_, least);
  if (!damaged_.exchange(true, std::memory_order_release)) tell();
}

}  // namespace hawser::engine
