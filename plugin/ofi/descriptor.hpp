// SPDX-License-Identifier: Apache-2.0
// A file descriptor that its owner closes.
#pragma once

#include <unistd.h>

#include <utility>

#include "plugin/ofi/uncancelled.hpp"

namespace hawser::ofi {

class Descriptor {
 public:
  explicit Descriptor(int descriptor = -1) noexcept : descriptor_(descriptor) {}
  ~Descriptor() {
    const Uncancelled uncancelled;
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  [[nodiscard]] int get() const { return descriptor_; }

 private:
  int descriptor_;
};

}  // namespace hawser::ofi
