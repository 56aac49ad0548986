// Which connections of a matrix start when others end.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "sim/traffic/connection_matrix.hpp"

namespace hawser::fabric {

class Triggers {
 public:
  // Every trigger that a connection names is one of the matrix.
  explicit Triggers(const ConnectionMatrix& matrix);

  // The connections, by their place in the matrix, that start now. Each is said once.
  [[nodiscard]] std::vector<std::uint32_t> on_sent(std::uint32_t connection) {
    return fire(when_sent_[connection]);
  }
  [[nodiscard]] std::vector<std::uint32_t> on_received(std::uint32_t connection) {
    return fire(when_received_[connection]);
  }

 private:
  struct State {
    Trigger::Kind kind = Trigger::Kind::oneshot;
    std::uint32_t missing = 1;  // times that it must fire still
    std::size_t started = 0;
    std::vector<std::uint32_t> waiting;
  };
  [[nodiscard]] std::vector<std::uint32_t> fire(std::uint32_t trigger);

  std::unordered_map<std::uint32_t, State> states_;
  std::vector<std::uint32_t> when_sent_;
  std::vector<std::uint32_t> when_received_;
};

// The first connection that would wait for ever even if all others came to their end; none if all
// start.
[[nodiscard]] std::optional<std::uint32_t> waits_for_ever(const ConnectionMatrix& matrix);

}  // namespace hawser::fabric
