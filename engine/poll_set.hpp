// SPDX-License-Identifier: Apache-2.0
// A set of descriptors that a thread waits for together, and the wait itself.
#pragma once

#include "engine/descriptor.hpp"
#include "proto/base/time.hpp"

namespace hawser::engine {

class PollSet {
 public:
  PollSet();  // throws hawser::Error

  void add(int fd);  // throws hawser::Error
  void remove(int fd) noexcept;

  // Sleeps until a descriptor of the set is readable or `until` has come (kNever: no limit). A
  // signal also ends the sleep.
  void wait(proto::Time now, proto::Time until) const;

  // Readable while one of them is.
  [[nodiscard]] int descriptor() const noexcept { return epoll_.get(); }

 private:
  Descriptor epoll_;
};

// Sleeps until `fd` is readable, `until` has come or a signal arrives. Both waits are cancellation
// points.
void wait_readable(int fd, proto::Time now, proto::Time until);

}  // namespace hawser::engine
