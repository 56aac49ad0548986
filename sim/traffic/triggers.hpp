// SPDX-License-Identifier: Apache-2.0
// Which connections of a matrix start when others end.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "sim/traffic/connection_matrix.hpp"

namespace hawser::fabric {

class Triggers {
 public:
  // Called with a trigger's place in the matrix when it fires and has a delay: expire() is due that
  // much later. Without this function all delays count as none.
  using Later = std::function<void(std::uint32_t trigger, Span delay)>;

  // Every trigger that a connection or a trigger names must be one of the matrix.
  explicit Triggers(const ConnectionMatrix& matrix, Later later = {});

  // The connections that start now, by their place in the matrix. Each is returned once.
  // Connections without a trigger are not among them: they have their start.
  [[nodiscard]] std::vector<std::uint32_t> begin();
  [[nodiscard]] std::vector<std::uint32_t> on_sent(std::uint32_t connection);
  [[nodiscard]] std::vector<std::uint32_t> on_received(std::uint32_t connection);
  [[nodiscard]] std::vector<std::uint32_t> expire(std::uint32_t trigger);

 private:
  static constexpr std::uint32_t kNone = ~0u;
  struct State {
    Trigger::Kind kind = Trigger::Kind::oneshot;
    std::uint32_t missing = 1;  // how often it must still fire
    std::uint32_t started = 0;  // of the waiting; only a multishot starts them singly
    Span delay{};
    std::vector<std::uint32_t> waiting;  // connections
    std::vector<std::uint32_t> then;     // places of triggers
  };
  [[nodiscard]] std::vector<std::uint32_t> fire(std::uint32_t place);
  void go_off(std::uint32_t place, std::vector<std::uint32_t>& fired,
              std::vector<std::uint32_t>& started);
  void release(std::uint32_t place, std::vector<std::uint32_t>& fired,
               std::vector<std::uint32_t>& started) const;
  [[nodiscard]] std::vector<std::uint32_t> spread(std::vector<std::uint32_t> fired,
                                                  std::vector<std::uint32_t> started);

  Later later_;
  std::vector<State> states_;             // by place
  std::vector<std::uint32_t> when_sent_;  // places, by connection
  std::vector<std::uint32_t> when_received_;
};

// The first connection that would wait for ever even if all others ended; none if all start.
[[nodiscard]] std::optional<std::uint32_t> waits_for_ever(const ConnectionMatrix& matrix);

}  // namespace hawser::fabric
