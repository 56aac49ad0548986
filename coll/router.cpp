// SPDX-License-Identifier: Apache-2.0
#include "coll/router.hpp"

#include <algorithm>
#include <utility>

namespace hawser::coll {
namespace {

constexpr std::uint64_t kRouted = 1ull << 63;
constexpr unsigned kRouteShift = 48;
constexpr std::size_t kMaxRoutes = 1u << 15;

// Longest wait while the endpoint refuses operations with `again`. Operations of others may be the
// cause, and their completions need not wake us.
constexpr std::uint64_t kHeldBackWait_ns = 1'000'000;

// Patience of the destructor: first for operations to end by themselves, then after close.
constexpr std::uint64_t kDrainWait_ns = 1'000'000;
constexpr int kDrainWaits = 100;
constexpr int kCloseWaits = 10'000;

}  // namespace

Router::Router(Endpoint& endpoint) : endpoint_(endpoint), leftovers_(endpoint) {
  leftovers_.set_route(add(leftovers_));
}

Router::~Router() {
  for (int i = 0; i < kDrainWaits && !quiet(); ++i) wait(kDrainWait_ns);
  if (quiet()) return;
  endpoint_.close();
  for (int i = 0; i < kCloseWaits && !quiet(); ++i) wait(kDrainWait_ns);
  // A NIC that still holds a buffer may read it when it comes back to life. Leak that memory rather
  // than let it be reused.
  for (Entry& entry : entries_) {
    if (entry.adopted && entry.adopted->in_flight() > 0) (void)entry.adopted.release();
  }
}

std::uint64_t Router::add(Route& route) {
  std::size_t index = 0;
  while (index < entries_.size() && entries_[index].route != nullptr) ++index;
  if (index == kMaxRoutes) throw Error("A router takes at most 32767 communicators.");
  if (index == entries_.size()) entries_.emplace_back();
  entries_[index].route = &route;
  return kRouted | static_cast<std::uint64_t>(index) << kRouteShift;
}

void Router::adopt(std::uint64_t mark, std::unique_ptr<Route> route) {
  Entry& entry = entries_[(mark & ~kRouted) >> kRouteShift];
  route->retire();
  entry.adopted = std::move(route);
  release_adopted();
  flush();
}

bool Router::knows_id(std::uint32_t id) const noexcept {
  return leftovers_.has(id) ||
         std::any_of(entries_.begin(), entries_.end(), [id](const Entry& one) {
           return one.route != nullptr && one.route->id() == id;
         });
}

Status Router::send(const SendRequest& request, OperationId& operation) {
  const Status status = endpoint_.send(request, operation);
  unflushed_ = unflushed_ || status == Status::ok;
  return status;
}

void Router::flush() {
  if (!std::exchange(unflushed_, false)) return;
  endpoint_.flush();
}

void Router::release_adopted() {
  for (Entry& entry : entries_) {
    if (!entry.adopted || entry.adopted->in_flight() > 0) continue;
    entry.adopted.reset();
    entry.route = nullptr;
  }
}

bool Router::quiet() const noexcept {
  return std::all_of(entries_.begin(), entries_.end(), [](const Entry& entry) {
    return entry.route == nullptr || entry.route->in_flight() == 0;
  });
}

void Router::turn(std::uint64_t timeout_ns, bool may_block) {
  const std::size_t count = may_block ? endpoint_.wait(batch_, timeout_ns) : endpoint_.poll(batch_);
  for (const Completion& completion : std::span(batch_).first(count)) {
    if ((completion.user_data & kRouted) == 0) {
      application_.push_back(completion);
      continue;
    }
    const std::size_t index = (completion.user_data & ~kRouted) >> kRouteShift;
    if (index < entries_.size() && entries_[index].route != nullptr) {
      entries_[index].route->on_completion(completion);
    }
  }
  for (const Entry& entry : entries_) {
    if (entry.route != nullptr) entry.route->advance();
  }
  if (looks_.count_turn(count > 0, may_block ? timeout_ns : 0)) {
    for (const Entry& entry : entries_) {
      if (entry.route != nullptr) entry.route->look();
    }
  }
  release_adopted();
  flush();
}

void Router::progress() { turn(0, false); }

void Router::wait(std::uint64_t timeout_ns) {
  bool busy = false;
  bool held_back = false;
  for (const Entry& entry : entries_) {
    if (entry.route == nullptr) continue;
    busy |= entry.route->busy();
    held_back |= entry.route->held_back();
  }
  turn(held_back ? std::min(timeout_ns, kHeldBackWait_ns) : timeout_ns, !busy);
}

std::size_t Router::take(std::span<Completion> completions) {
  const std::size_t count = std::min(completions.size(), application_.size());
  for (std::size_t i = 0; i < count; ++i) {
    completions[i] = application_.front();
    application_.pop_front();
  }
  return count;
}

}  // namespace hawser::coll
