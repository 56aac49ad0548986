// SPDX-License-Identifier: Apache-2.0
#include "plugin/ofi/counter.hpp"

#include <rdma/fi_errno.h>

#include <new>
#include <system_error>
#include <utility>

#include "plugin/ofi/endpoint.hpp"
#include "plugin/ofi/log.hpp"
#include "plugin/ofi/refusals.hpp"

namespace hawser::ofi {
namespace {

Counter& counter_of(fid_cntr* counter) { return object_of<Counter>(counter); }

int close_counter(struct fid* fid) {
  Counter& counter = object_of<Counter, fid_cntr>(fid);
  if (counter.users != 0) return -FI_EBUSY;
  delete &counter;
  return 0;
}

fi_ops counter_fid_ops = [] {
  fi_ops ops{};
  ops.close = close_counter;
  ops.control = [](struct fid* fid, int command, void* argument) {
    return object_of<Counter, fid_cntr>(fid).control(command, argument);
  };
  return completed(ops);
}();

std::uint64_t read(fid_cntr* counter) { return counter_of(counter).read(); }

std::uint64_t read_errors(fid_cntr* counter) { return counter_of(counter).read_errors(); }

template <void (Counter::*change)(std::uint64_t)>
int change_counter(fid_cntr* counter, std::uint64_t value) {
  (counter_of(counter).*change)(value);
  return 0;
}

fi_ops_cntr counter_ops{
    .size = sizeof(fi_ops_cntr),
    .read = read,
    .readerr = read_errors,
    .add = change_counter<&Counter::add>,
    .set = change_counter<&Counter::set>,
    .wait = [](fid_cntr* counter, std::uint64_t threshold,
               int timeout) { return counter_of(counter).wait(threshold, timeout); },
    .adderr = change_counter<&Counter::add_error>,
    .seterr = change_counter<&Counter::set_error>};

}  // namespace

Counter::Counter(Domain& domain, fi_wait_obj object, void* opener)
    : fid_cntr{}, EventSink(domain, object), domain_(domain) {
  fid.fclass = FI_CLASS_CNTR;
  fid.context = opener;
  fid.ops = &counter_fid_ops;
  ops = &counter_ops;
  ++domain_.users;
}

Counter::~Counter() { --domain_.users; }

void Counter::look() {
  const std::uint64_t before = value_ + errors_;
  idle_reads_.begin();
  progress();
  value_ + errors_ != before ? idle_reads_.found() : idle_reads_.pause();
}

std::uint64_t Counter::read() {
  look();
  const Lock lock(state_mutex_);
  seen_value_ = value_;
  settle_locked();
  return seen_value_;
}

std::uint64_t Counter::read_errors() {
  look();
  const Lock lock(state_mutex_);
  seen_errors_ = errors_;
  settle_locked();
  return seen_errors_;
}

bool Counter::is_any_done_locked() const {
  const Waiter* waiter = waiters_;
  while (waiter != nullptr && !waiter->is_done()) waiter = waiter->next;
  return waiter != nullptr;
}

void Counter::settle_locked() {
  if (!is_any_done_locked()) quiet_locked();
}

template <class Change>
void Counter::change(Change&& change) {
  const Lock lock(state_mutex_);
  change();
  ring_locked();
}

void Counter::add(std::uint64_t value) {
  change([&] { value_ += value; });
}

void Counter::set(std::uint64_t value) {
  change([&] { value_ = value; });
}

void Counter::add_error(std::uint64_t value) {
  change([&] { errors_ += value; });
}

void Counter::set_error(std::uint64_t value) {
  change([&] { errors_ = value; });
}

Counter::Waiter::Waiter(Counter& counter, std::uint64_t threshold)
    : counter_(counter), threshold_(threshold) {
  const Lock lock(counter.state_mutex_);
  errors_ = counter.errors_;
  next = std::exchange(counter.waiters_, this);
}

Counter::Waiter::~Waiter() {
  const Lock lock(counter_.state_mutex_);
  Waiter** link = &counter_.waiters_;
  while (*link != this) link = &(*link)->next;
  *link = next;
}

int Counter::wait(std::uint64_t threshold, int timeout_ms) {
  const Waiter waiter(*this, threshold);
  bool failed = false;
  const bool came = wait_until(
      [&] {
        const Lock lock(state_mutex_);
        settle_locked();
        failed = waiter.has_failed();
        return waiter.is_done();
      },
      timeout_ms);
  if (failed) return -FI_EAVAIL;
  return came ? 0 : -FI_ETIMEDOUT;
}

int Counter::try_wait() {
  if (!is_waitable()) return -FI_EINVAL;
  progress();
  const bool must_turn = must_be_turned();
  const Lock lock(state_mutex_);
  const std::uint64_t value = std::exchange(seen_value_, value_);
  const std::uint64_t errors = std::exchange(seen_errors_, errors_);
  settle_locked();
  return must_turn || value != seen_value_ || errors != seen_errors_ ? -FI_EAGAIN : 0;
}

int open_counter(fid_domain* domain, fi_cntr_attr* attr, fid_cntr** counter, void* context) {
  const fi_cntr_attr none{};
  const fi_cntr_attr& asked = attr != nullptr ? *attr : none;
  if (asked.events != FI_CNTR_EVENTS_COMP) return -FI_EINVAL;
  if (!is_offered(asked.wait_obj)) return -FI_ENOSYS;
  try {
    *counter = new Counter(object_of<Domain>(domain), asked.wait_obj, context);
    return 0;
  } catch (const std::system_error& error) {
    log_warning(error.what());
    return -error.code().value();
  } catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
  }
}

}  // namespace hawser::ofi
