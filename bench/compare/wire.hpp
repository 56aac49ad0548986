// SPDX-License-Identifier: Apache-2.0
// Lines of text between the two processes of a comparison, over a socket that both have.
#pragma once

#include <functional>
#include <string>

namespace hawser::bench {

class Wire {
 public:
  explicit Wire(int fd) : fd_(fd) {}
  void put(const std::string& text) const;
  // Calls `idle` until something is here. Throws std::runtime_error once the other side is gone.
  [[nodiscard]] std::string get(const std::function<void()>& idle) const;

 private:
  int fd_;
};

}  // namespace hawser::bench
