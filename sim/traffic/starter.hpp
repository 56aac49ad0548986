// SPDX-License-Identifier: Apache-2.0
// When each connection of a matrix starts in a run: at its start, or when its trigger fires and the
// trigger's delay is over. The matrix's carrier tells the starter which connections were sent and
// received, and hears from it which ones to start.
#pragma once

#include <cstdint>
#include <functional>

#include "sim/fabric/event_wheel.hpp"
#include "sim/traffic/triggers.hpp"

namespace hawser::fabric {

class Starter final : public Actor {
 public:
  // `start` is called once for each connection, by its place in the matrix. The starter outlives
  // the wheel's events.
  Starter(EventWheel& events, const ConnectionMatrix& matrix,
          std::function<void(std::uint32_t connection)> start);
  Starter(const Starter&) = delete;
  Starter& operator=(const Starter&) = delete;

  // The matrix's time begins.
  void begin();
  // The sender of a connection knows that all has arrived; its receiver has it all.
  void sent(std::uint32_t connection) { start(triggers_.on_sent(connection)); }
  void received(std::uint32_t connection) { start(triggers_.on_received(connection)); }

  void on_event(Instant now, std::uint32_t what) override;

 private:
  void start(const std::vector<std::uint32_t>& connections) {
    for (const std::uint32_t one : connections) start_(one);
  }

  EventWheel& events_;
  std::function<void(std::uint32_t)> start_;
  std::vector<std::pair<std::uint32_t, Span>> untriggered_;  // and their starts
  std::uint32_t connections_;  // events below are connections, those above triggers
  Triggers triggers_;
};

}  // namespace hawser::fabric
