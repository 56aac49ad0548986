// SPDX-License-Identifier: Apache-2.0
#include "engine/registration/news.hpp"

#include "engine/driver/event_descriptor.hpp"

namespace hawser::engine {

News::News() : event_(make_event_descriptor("Registration")) {}

void News::tell() noexcept {
  // Set it again after the raise, since take() could see the news before the descriptor is raised,
  // and leave it readable. Set it before, too: a thread woken by the descriptor must find the news.
  there_.store(true, std::memory_order_release);
  raise_event(event_.get());
  there_.store(true, std::memory_order_release);
}

bool News::take() noexcept {
  if (!there_.load(std::memory_order_relaxed)) return false;
  lower_event(event_.get());
  return there_.exchange(false, std::memory_order_acquire);
}

}  // namespace hawser::engine
