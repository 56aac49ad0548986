#include "engine/registration/news.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

#include "engine/system_error.hpp"

namespace hawser::engine {

News::News() : event_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!event_) throw system_error("No event descriptor can be made");
}

void News::tell() noexcept {
  // Once more afterwards: else take() could see the news before the descriptor has them, and leave
  // it readable. And before, as who is woken by the descriptor must find them.
  there_.store(true, std::memory_order_release);
  const std::uint64_t one = 1;
  (void)!::write(event_.get(), &one, sizeof one);  // full means that it is readable anyway
  there_.store(true, std::memory_order_release);
}

bool News::take() noexcept {
  if (!there_.load(std::memory_order_relaxed)) return false;
  std::uint64_t count = 0;
  (void)!::read(event_.get(), &count, sizeof count);
  return there_.exchange(false, std::memory_order_acquire);
}

}  // namespace hawser::engine
