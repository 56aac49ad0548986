// SPDX-License-Identifier: Apache-2.0
// Tells the thread that makes an endpoint's progress that others have something for it, asleep or
// not.
#pragma once

#include <atomic>

#include "engine/descriptor.hpp"

namespace hawser::engine {

class News {
 public:
  News();  // throws hawser::Error

  // Any thread, that of the userfaults too: neither allocates nor waits.
  void tell() noexcept;
  // The thread that is told: whether there were some since the last time.
  [[nodiscard]] bool take() noexcept;

  // Readable from a tell to the take that sees it.
  [[nodiscard]] int descriptor() const noexcept { return event_.get(); }

 private:
  Descriptor event_;
  std::atomic<bool> there_{false};
};

}  // namespace hawser::engine
