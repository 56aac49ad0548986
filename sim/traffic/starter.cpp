// SPDX-License-Identifier: Apache-2.0
#include "sim/traffic/starter.hpp"

namespace hawser::fabric {

Starter::Starter(EventWheel& events, const ConnectionMatrix& matrix,
                 std::function<void(std::uint32_t)> start)
    : events_(events),
      start_(std::move(start)),
      connections_(static_cast<std::uint32_t>(matrix.connections.size())),
      triggers_(matrix, [this](std::uint32_t trigger, Span delay) {
        events_.at(events_.now() + delay, *this, connections_ + trigger);
      }) {
  for (std::uint32_t i = 0; i < connections_; ++i) {
    const Connection& one = matrix.connections[i];
    if (one.trigger == 0) untriggered_.emplace_back(i, one.start - Instant{});
  }
}

void Starter::begin() {
  for (const auto& [connection, after] : untriggered_) {
    events_.at(events_.now() + after, *this, connection);
  }
  start(triggers_.begin());
}

void Starter::on_event(Instant, std::uint32_t what) {
  if (what < connections_) return start_(what);
  start(triggers_.expire(what - connections_));
}

}  // namespace hawser::fabric
