// SPDX-License-Identifier: Apache-2.0
// Tells the thread that makes an endpoint's progress, whether asleep or not, that other threads
// have work for it.
#pragma once

#include <atomic>

#include "engine/descriptor.hpp"

namespace hawser::engine {

class News {
 public:
  News();  // throws hawser::Error

  // For any thread, the userfault thread included. Neither allocates nor waits.
  void tell() noexcept;
  // For the thread that is told: true if there was news since the last call.
  [[nodiscard]] bool take() noexcept;

  // Readable from a tell to the take that sees it.
  [[nodiscard]] int descriptor() const noexcept { return event_.get(); }

 private:
  Descriptor event_;
  std::atomic<bool> there_{false};
};

}  // namespace hawser::engine
