// SPDX-License-Identifier: Apache-2.0
// Hears from the kernel that addresses of this host have come or gone.
#pragma once

#include "engine/descriptor.hpp"

namespace hawser::engine {

class UdpWatch {
 public:
  // Where the system permits none (a sandbox), nothing is ever heard.
  UdpWatch();

  // Readable when something may have changed; -1: nothing is heard.
  [[nodiscard]] int descriptor() const { return socket_.get(); }
  // Whether something may have changed since the last time. A system call or two.
  [[nodiscard]] bool take_changes();

 private:
  Descriptor socket_;
};

}  // namespace hawser::engine
