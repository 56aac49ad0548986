// SPDX-License-Identifier: Apache-2.0
#include "plugin/ofi/event_queue.hpp"

#include <pthread.h>
#include <rdma/fi_errno.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <vector>

#include "plugin/ofi/fabric.hpp"
#include "plugin/ofi/object.hpp"
#include "plugin/ofi/refusals.hpp"

namespace hawser::ofi {
namespace {

constexpr std::size_t kUsualEvents = 256;
constexpr std::chrono::hours kLongWait{1};

class EventQueue : public fid_eq {
 public:
  EventQueue(Fabric& fabric, std::size_t size, void* context);

  // Frees the queue. A child of fork leaves its copy as it is: the parent's waiting threads seem to
  // wait there still, and the destructor of the condition variable would wait for them.
  void close();
  ssize_t write(std::uint32_t kind, const void* data, std::size_t bytes);
  // Waits for the first event; -1: without limit. FI_PEEK leaves the event there.
  ssize_t read(std::uint32_t& kind, void* out, std::size_t room, int timeout_ms,
               std::uint64_t flags);

 private:
  struct Event {
    std::uint32_t kind;
    std::vector<std::byte> data;
  };
  ~EventQueue() = default;

  Fabric& fabric_;
  std::size_t size_;
  pid_t owner_ = ::getpid();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Event> events_;
};

EventQueue& queue_of(fid_eq* queue) { return object_of<EventQueue>(queue); }

fi_ops queue_fid_ops = [] {
  fi_ops ops{};
  ops.close = [](struct fid* fid) {
    object_of<EventQueue, fid_eq>(fid).close();
    return 0;
  };
  return completed(ops);
}();

ssize_t read(fid_eq* queue, std::uint32_t* kind, void* out, std::size_t room, std::uint64_t flags) {
  return queue_of(queue).read(*kind, out, room, 0, flags);
}

ssize_t wait_and_read(fid_eq* queue, std::uint32_t* kind, void* out, std::size_t room, int timeout,
                      std::uint64_t flags) {
  return queue_of(queue).read(*kind, out, room, timeout, flags);
}

ssize_t write(fid_eq* queue, std::uint32_t kind, const void* data, std::size_t bytes,
              std::uint64_t) {
  try {
    return queue_of(queue).write(kind, data, bytes);
  } catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
  }
}

fi_ops_eq queue_ops{
    .size = sizeof(fi_ops_eq),
    .read = read,
    .readerr = [](fid_eq*, fi_eq_err_entry*, std::uint64_t) -> ssize_t { return -FI_EAGAIN; },
    .write = write,
    .sread = wait_and_read,
    .strerror = [](fid_eq*, int, const void*, char*, std::size_t) { return "no error"; }};

EventQueue::EventQueue(Fabric& fabric, std::size_t size, void* opener)
    : fid_eq{}, fabric_(fabric), size_(size != 0 ? size : kUsualEvents) {
  fid.fclass = FI_CLASS_EQ;
  fid.context = opener;
  fid.ops = &queue_fid_ops;
  ops = &queue_ops;
  ++fabric_.users;
}

void EventQueue::close() {
  --fabric_.users;
  if (owner_ == ::getpid()) delete this;
}

ssize_t EventQueue::write(std::uint32_t kind, const void* data, std::size_t bytes) {
  const auto* const begin = static_cast<const std::byte*>(data);
  const std::lock_guard lock(mutex_);
  if (events_.size() == size_) return -FI_EAGAIN;
  events_.push_back({kind, std::vector<std::byte>(begin, begin + bytes)});
  changed_.notify_one();
  return static_cast<ssize_t>(bytes);
}

ssize_t EventQueue::read(std::uint32_t& kind, void* out, std::size_t room, int timeout_ms,
                         std::uint64_t flags) {
  if (timeout_ms != 0) ::pthread_testcancel();
  std::unique_lock lock(mutex_);
  const auto has_some = [this] { return !events_.empty(); };
  if (timeout_ms < 0) {
    // The wait without a limit is noexcept before libstdc++ 12, and a thread may be cancelled in
    // it.
    while (!changed_.wait_for(lock, kLongWait, has_some)) {
    }
  } else if (!changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), has_some)) {
    return -FI_EAGAIN;
  }
  const Event& event = events_.front();
  if (room < event.data.size()) return -FI_ETOOSMALL;
  kind = event.kind;
  if (!event.data.empty()) std::memcpy(out, event.data.data(), event.data.size());
  const auto bytes = static_cast<ssize_t>(event.data.size());
  if ((flags & FI_PEEK) == 0) events_.pop_front();
  return bytes;
}

}  // namespace

int open_event_queue(fid_fabric* fabric, fi_eq_attr* attr, fid_eq** queue, void* context) {
  const fi_eq_attr none{};
  const fi_eq_attr& asked = attr != nullptr ? *attr : none;
  // There is no descriptor; fi_eq_sread does the waiting.
  if (asked.wait_obj != FI_WAIT_NONE && asked.wait_obj != FI_WAIT_UNSPEC) return -FI_ENOSYS;
  *queue = new (std::nothrow) EventQueue(object_of<Fabric>(fabric), asked.size, context);
  return *queue == nullptr ? -FI_ENOMEM : 0;
}

}  // namespace hawser::ofi
