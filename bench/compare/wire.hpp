// SPDX-License-Identifier: Apache-2.0
// Lines of text between the two processes of a comparison, over a pair of sockets.
#pragma once

#include <functional>
#include <string>

namespace hawser::bench {

class Wire {
 public:
  explicit Wire(int fd) : fd_(fd) {}
  void put(const std::string& text) const;
  // Calls `idle` until a line has come. Throws std::runtime_error once the other process is gone.
  [[nodiscard]] std::string get(const std::function<void()>& idle) const;

 private:
  int fd_;
};

}  // namespace hawser::bench
