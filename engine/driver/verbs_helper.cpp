#include "engine/driver/verbs_helper.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "engine/background_thread.hpp"
#include "engine/system_error.hpp"

namespace hawser::engine {
namespace {

constexpr int kRetryMilliseconds = 250;

Descriptor make_eventfd(const std::string& name) {
  Descriptor fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!fd) throw system_error(name + ": no event descriptor can be made");
  return fd;
}

void raise(int fd) {
  const std::uint64_t one = 1;
  (void)!::write(fd, &one, sizeof one);  // full means that it is readable anyway
}

void lower(int fd) {
  std::uint64_t count = 0;
  (void)!::read(fd, &count, sizeof count);
}

}  // namespace

VerbsHelper::VerbsHelper(const VerbsPort& port, VerbsDestinations& destinations,
                         std::function<bool()> repair)
    : port_(port),
      destinations_(destinations),
      repair_(std::move(repair)),
      wake_(make_eventfd(port.name)),
      news_(make_eventfd(port.name)) {
  const int events = port_.context->async_fd;
  (void)::fcntl(events, F_SETFL, ::fcntl(events, F_GETFL) | O_NONBLOCK);
  thread_ = start_background_thread("hawser-verbs", [this] { run(); });
}

VerbsHelper::~VerbsHelper() { stop(); }

void VerbsHelper::stop() {
  if (!thread_.joinable()) return;
  stopping_.store(true, std::memory_order_release);
  wake();
  thread_.join();
}

void VerbsHelper::wake() const { raise(wake_.get()); }

void VerbsHelper::ask_for_repair() {
  repair_state_.store(Repair::asked, std::memory_order_release);
  wake();
}

bool VerbsHelper::take_repaired() {
  if (repair_state_.load(std::memory_order_acquire) != Repair::done) return false;
  repair_state_.store(Repair::none, std::memory_order_relaxed);
  return true;
}

void VerbsHelper::tell() {
  // Afterwards too: else quiet() could take the news before the descriptor has them. And before,
  // as who is woken may find this thread asleep behind the raise, and must be able to quiet it.
  has_news_.store(true, std::memory_order_release);
  raise(news_.get());
  has_news_.store(true, std::memory_order_release);
}

void VerbsHelper::quiet() {
  if (has_news_.load(std::memory_order_relaxed) &&
      has_news_.exchange(false, std::memory_order_acquire)) {
    lower(news_.get());
  }
}

void VerbsHelper::run() {
  bool again = false;
  int events = port_.context->async_fd;
  while (!stopping_.load(std::memory_order_acquire)) {
    std::array<pollfd, 2> fds{{{wake_.get(), POLLIN, 0}, {events, POLLIN, 0}}};
    const int ready = ::poll(fds.data(), fds.size(), again ? kRetryMilliseconds : -1);
    if (fds[0].revents != 0) lower(wake_.get());
    if (fds[1].revents != 0 && !read_events()) events = -1;
    again = serve(ready == 0);
  }
}

bool VerbsHelper::serve(bool retry) {
  bool again = destinations_.serve(retry);
  if (repair_state_.load(std::memory_order_acquire) == Repair::asked) {
    if (is_port_up() && repair_()) {
      repair_state_.store(Repair::done, std::memory_order_release);
      tell();
    } else {
      again = true;
    }
  }
  return again;
}

bool VerbsHelper::read_events() {
  ibv_async_event event{};
  while (ibv_get_async_event(port_.context.get(), &event) == 0) {
    take(event);
    ibv_ack_async_event(&event);
  }
  if (errno == EAGAIN || errno == EINTR) return true;
  port_up_.store(false, std::memory_order_release);  // the device was removed
  tell();
  return false;
}

void VerbsHelper::take(const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
      if (event.element.port_num != port_.number) return;
      port_up_.store(event.event_type == IBV_EVENT_PORT_ACTIVE, std::memory_order_release);
      break;
    case IBV_EVENT_DEVICE_FATAL: port_up_.store(false, std::memory_order_release); break;
    case IBV_EVENT_CQ_ERR: dead_queue_.store(true, std::memory_order_release); [[fallthrough]];
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR: failed_.store(true, std::memory_order_release); break;
    default: return;
  }
  tell();
}

}  // namespace hawser::engine
