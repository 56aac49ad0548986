// SPDX-License-Identifier: Apache-2.0
// Learns from the kernel when this host changes: its addresses, or what decides its routes.
#pragma once

#include <cstdint>

#include "engine/descriptor.hpp"

namespace hawser::engine {

class UdpWatch {
 public:
  enum class Topic : std::uint8_t {
    addresses,
    routes,  // also links, next hops and policy rules
  };
  // If the system forbids it (a sandbox), the watch never reports a change.
  explicit UdpWatch(Topic topic);

  // Readable when something may have changed; -1: changes are never reported.
  [[nodiscard]] int descriptor() const { return socket_.get(); }
  // True if something may have changed since the last call. Takes a system call or two.
  [[nodiscard]] bool take_changes();

 private:
  Descriptor socket_;
};

}  // namespace hawser::engine
