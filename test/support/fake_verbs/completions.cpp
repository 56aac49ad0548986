// SPDX-License-Identifier: Apache-2.0
// Completion queues, the channels that wake their users, and the events of devices.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "test/support/fake_verbs/world.hpp"

namespace hawser::test::fake {

Completions& completions_of(ibv_cq* queue) {
  return static_cast<Completions&>(*reinterpret_cast<ibv_cq_ex*>(queue));
}

void wake(int fd) {
  const std::uint64_t one = 1;
  (void)!::write(fd, &one, sizeof one);
}

void raise_event(Context& context, const ibv_async_event& event) {
  context.events.push_back({event});
  wake(context.context.async_fd);
}

void push(Completions& queue, Completion completion) {
  if (queue.dead) return;
  world().faults.bend(completion.side, completion.wc);
  if (queue.ring.size() == queue.capacity) {
    queue.dead = true;
    ibv_async_event event{};
    event.event_type = IBV_EVENT_CQ_ERR;
    event.element.cq = reinterpret_cast<ibv_cq*>(static_cast<ibv_cq_ex*>(&queue));
    raise_event(context_of(queue.context), event);
    return;
  }
  (void)queue.ring.push(std::move(completion));
  // Only a completion that comes after the arming wakes the user, and only the first one.
  if (!queue.armed || queue.channel == nullptr) return;
  queue.armed = false;
  static_cast<Channel*>(queue.channel)->events.push_back(&queue);
  wake(queue.channel->fd);
}

bool pop(Completions& queue, Completion& completion) {
  if (queue.dead || queue.ring.empty()) return false;
  completion = queue.ring.pop();
  if (completion.pair != nullptr) {
    WorkQueue& work =
        completion.side == Side::send ? completion.pair->sends : completion.pair->receives;
    work.freed = std::max(work.freed, completion.frees);
  }
  return true;
}

int poll(ibv_cq* from, int most, ibv_wc* completions) {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  Completions& queue = completions_of(from);
  if (all.faults.strike(Call::poll_cq) != 0) return -1;
  if (queue.dead && context_of(queue.context).device->settings.dead_queues_say_so) return -1;
  int count = 0;
  Completion completion;
  if (gone(queue.context) != 0) return 0;
  while (count < most && pop(queue, completion)) completions[count++] = completion.wc;
  return count;
}

int request_notification(ibv_cq* queue, int) {
  const std::lock_guard lock(world().mutex);
  if (const int error = world().faults.strike(Call::req_notify_cq)) return error;
  if (gone(queue->context) != 0) return 0;
  completions_of(queue).armed = true;
  return 0;
}

Completions* make_completions(ibv_context* context, std::uint32_t entries, void* own,
                              ibv_comp_channel* channel) {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  int error = all.faults.strike(Call::create_cq);
  if (entries == 0) error = EINVAL;
  if (error == 0) error = gone(context);
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  auto* const queue = new Completions(entries);
  queue->context = context;
  queue->channel = channel;
  queue->cq_context = own;
  queue->cqe = static_cast<int>(entries);
  if (channel != nullptr) ++static_cast<Channel*>(channel)->queues;
  ++context_of(context).objects;
  ++all.objects;
  return queue;
}

}  // namespace hawser::test::fake

using namespace hawser::test::fake;  // NOLINT: what follows are libibverbs' own functions

namespace {

// Takes one from a counting descriptor; may block. Returns zero or an error number.
int take_one(int fd) {
  std::uint64_t count = 0;
  return ::read(fd, &count, sizeof count) == sizeof count ? 0 : errno;
}

int failed(int error) {
  errno = error;
  return -1;
}

}  // namespace

extern "C" {

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  int error = all.faults.strike(Call::create_comp_channel);
  if (error == 0) error = gone(context);
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  auto* const channel = new Channel{};
  channel->context = context;
  channel->fd = ::eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
  channel->events.reserve(1024);
  ++context_of(context).objects;
  ++all.objects;
  return channel;
}

int ibv_destroy_comp_channel(ibv_comp_channel* which) {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  auto* const channel = static_cast<Channel*>(which);
  if (channel->queues > 0) {
    all.violation("a completion channel goes before its queues");
    return EBUSY;
  }
  ::close(channel->fd);
  --context_of(channel->context).objects;
  --all.objects;
  delete channel;
  return 0;
}

ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* own, ibv_comp_channel* channel,
                      int) {
  Completions* const made =
      make_completions(context, static_cast<std::uint32_t>(std::max(entries, 0)), own, channel);
  return made == nullptr ? nullptr : reinterpret_cast<ibv_cq*>(static_cast<ibv_cq_ex*>(made));
}

int ibv_destroy_cq(ibv_cq* which) {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  Completions& queue = completions_of(which);
  if (queue.pairs > 0) {
    all.violation("a completion queue goes before its queue pairs");
    return EBUSY;
  }
  // A real device would wait for ever here.
  if (queue.unacknowledged > 0) all.violation("a completion queue goes with events unacknowledged");
  if (queue.channel != nullptr) {
    auto* const channel = static_cast<Channel*>(queue.channel);
    for (std::size_t gone = std::erase(channel->events, &queue); gone > 0; --gone) {
      const int flags = ::fcntl(channel->fd, F_GETFL);
      (void)::fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK);
      (void)take_one(channel->fd);
      (void)::fcntl(channel->fd, F_SETFL, flags);
    }
    --channel->queues;
  }
  auto& events = context_of(queue.context).events;
  for (const AsyncEvent& event : events) {
    if (event.read && event.event.event_type == IBV_EVENT_CQ_ERR &&
        event.event.element.cq == which) {
      all.violation("a completion queue goes with its error unacknowledged");
    }
  }
  --context_of(queue.context).objects;
  --all.objects;
  delete &queue;
  return 0;
}

int ibv_get_cq_event(ibv_comp_channel* from, ibv_cq** queue, void** own) {
  World& all = world();
  {
    const std::lock_guard lock(all.mutex);
    if (const int error = all.faults.strike(Call::get_cq_event)) return failed(error);
  }
  if (const int error = take_one(from->fd)) return failed(error);
  const std::lock_guard lock(all.mutex);
  auto* const channel = static_cast<Channel*>(from);
  Completions* const fired = channel->events.front();
  channel->events.erase(channel->events.begin());
  ++fired->unacknowledged;
  *queue = reinterpret_cast<ibv_cq*>(static_cast<ibv_cq_ex*>(fired));
  *own = fired->cq_context;
  return 0;
}

void ibv_ack_cq_events(ibv_cq* which, unsigned count) {
  const std::lock_guard lock(world().mutex);
  Completions& queue = completions_of(which);
  if (count > queue.unacknowledged) world().violation("more events are acknowledged than read");
  queue.unacknowledged -= std::min(queue.unacknowledged, count);
}

int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  World& all = world();
  {
    const std::lock_guard lock(all.mutex);
    if (const int error = all.faults.strike(Call::get_async_event)) return failed(error);
    // Events that came before break_events can still be read.
    Context& of = context_of(context);
    const bool unread = !std::ranges::all_of(of.events, &AsyncEvent::read);
    if (of.events_broken && !unread) return failed(EIO);
  }
  if (const int error = take_one(context->async_fd)) return failed(error);
  const std::lock_guard lock(all.mutex);
  auto& events = context_of(context).events;
  const auto next = std::ranges::find(events, false, &AsyncEvent::read);
  if (next == events.end()) return failed(EAGAIN);  // the object of the event has gone
  next->read = true;
  *event = next->event;
  return 0;
}

void ibv_ack_async_event(ibv_async_event* event) {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  for (const auto* const devices : {&all.devices, &all.removed_devices}) {
    for (const auto& device : *devices) {
      for (Context* const context : device->contexts) {
        const auto found = std::ranges::find_if(context->events, [&](const AsyncEvent& other) {
          return other.read && other.event.event_type == event->event_type &&
                 other.event.element.cq == event->element.cq;
        });
        if (found == context->events.end()) continue;
        context->events.erase(found);
        return;
      }
    }
  }
  all.violation("an event is acknowledged that was not read");
}

}  // extern "C"
