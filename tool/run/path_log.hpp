// SPDX-License-Identifier: Apache-2.0
// The events of a rank's endpoint about its paths, NICs and verdicts.
#pragma once

#include <cstdint>
#include <vector>

#include "hawser/engine.hpp"
#include "tool/run/verdicts.hpp"

namespace hawser::tool {

class PathLog {
 public:
  // Further changes are only counted.
  static constexpr std::size_t kMaxChanges = 4096;

  // Endpoints of ranks are named rank + 1. The endpoint outlives the log.
  explicit PathLog(Endpoint& endpoint) : endpoint_(endpoint) {}

  // Times count from this moment.
  void begin(std::uint64_t now_ns) { begun_ns_ = now_ns; }
  // Takes the new events.
  void look();

  [[nodiscard]] const std::vector<PathChange>& changes() const { return changes_; }
  // Those beyond kMaxChanges, and those that the endpoint had to drop.
  [[nodiscard]] std::uint64_t changes_left_out() const { return left_out_; }

 private:
  void take(const Event& event);

  Endpoint& endpoint_;
  std::uint64_t begun_ns_ = 0;
  std::uint64_t next_number_ = 0;
  std::vector<PathChange> changes_;
  std::uint64_t left_out_ = 0;
};

}  // namespace hawser::tool
