// SPDX-License-Identifier: Apache-2.0
#include "plugin/ofi/event_sink.hpp"

#include <rdma/fi_errno.h>

#include <utility>

#include "plugin/ofi/endpoint.hpp"

namespace hawser::ofi {

EventSink::EventSink(const Domain& domain, fi_wait_obj object)
    : idle_reads_(domain.config().tunables.spin_us),
      state_mutex_(domain.is_locking()),
      members_mutex_(domain.is_locking()),
      object_(object),
      is_polled_(object == FI_WAIT_FD) {
  if (object != FI_WAIT_NONE) waiting_.emplace();
}

void EventSink::add(Endpoint& endpoint) {
  const Lock lock(members_mutex_);
  if (std::ranges::count(members_, &endpoint) == 0) members_.push_back(&endpoint);
}

void EventSink::remove(Endpoint& endpoint) {
  const Lock lock(members_mutex_);
  std::erase(members_, &endpoint);
}

void EventSink::progress() {
  const Lock lock(members_mutex_);
  for (Endpoint* endpoint : members_) endpoint->progress();
}

bool EventSink::must_be_turned() {
  const Lock lock(members_mutex_);
  return std::ranges::any_of(members_, [](Endpoint* e) { return e->must_be_turned(); });
}

void EventSink::set_bell_locked(bool rings) {
  is_ringing_ = rings;
  rings ? waiting_->ring() : waiting_->quiet();
}

void EventSink::stop_waiting() {
  const Lock lock(state_mutex_);
  stopped_ = true;
  if (waiting_ && !is_ringing_) set_bell_locked(true);
}

bool EventSink::is_stopped() {
  if (!stopped_) return false;
  const Lock lock(state_mutex_);
  return stopped_.exchange(false);
}

// No bell rang for what came before. Ring it now, so that the program looks once.
void EventSink::start_polling() {
  const Lock lock(state_mutex_);
  if (std::exchange(is_polled_, true)) return;
  ring_locked();
}

int EventSink::control(int command, void* argument) {
  switch (command) {
    case FI_GETWAIT:
      if (object_ != FI_WAIT_FD && object_ != FI_WAIT_UNSPEC) return -FI_ENODATA;
      start_polling();
      *static_cast<int*>(argument) = waiting_->descriptor();
      return 0;
    case FI_GETWAITOBJ:
      // FI_WAIT_UNSPEC leaves the choice to the provider, which chooses FI_WAIT_FD.
      *static_cast<fi_wait_obj*>(argument) = object_ == FI_WAIT_UNSPEC ? FI_WAIT_FD : object_;
      return 0;
    default: return -FI_ENOSYS;
  }
}

}  // namespace hawser::ofi
