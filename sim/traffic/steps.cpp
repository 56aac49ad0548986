// SPDX-License-Identifier: Apache-2.0
#include "sim/traffic/steps.hpp"

#include <algorithm>
#include <map>
#include <queue>
#include <tuple>
#include <utility>

#include "proto/base/assert.hpp"
#include "sim/traffic/triggers.hpp"

namespace hawser::fabric {

namespace {

std::vector<StepSpan> collect(const ConnectionMatrix& matrix, std::span<const FlowSpan> flows,
                              bool by_node) {
  HAWSER_ASSERT(flows.size() == matrix.connections.size());
  std::map<std::pair<std::uint32_t, std::uint32_t>, StepSpan> spans;
  for (std::size_t i = 0; i < flows.size(); ++i) {
    const Connection& one = matrix.connections[i];
    if (one.step == 0) continue;
    const std::uint32_t node = by_node ? one.to : 0;
    StepSpan& span = spans[{one.step, node}];
    span.step = one.step;
    span.node = node;
    ++span.messages;
    span.started = std::min(span.started, flows[i].started);
    span.received = std::max(span.received, flows[i].received);
  }
  std::vector<StepSpan> all;
  for (const auto& [key, span] : spans) all.push_back(span);
  return all;
}

// Fires the triggers again in the order of the run's times, and records what started each
// connection.
class Replay {
 public:
  Replay(const ConnectionMatrix& matrix, std::span<const FlowSpan> flows)
      : triggers_(matrix,
                  [this](std::uint32_t trigger, Span delay) {
                    events_.push({now_ + delay, What::expired, trigger, cause_});
                  }),
        causes_(flows.size()) {
    for (std::uint32_t i = 0; i < flows.size(); ++i) {
      if (flows[i].received != kNever) events_.push({flows[i].received, What::received, i, {}});
      if (flows[i].ended != kNever) events_.push({flows[i].ended, What::sent, i, {}});
    }
  }

  struct Cause {
    std::uint32_t connection = kNone;
    Instant at{};  // when it fired
  };
  static constexpr std::uint32_t kNone = ~0u;

  std::vector<Cause> run() {
    started(triggers_.begin());
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.at;
      cause_ = event.what == What::expired ? event.cause : Cause{event.which, event.at};
      switch (event.what) {
        case What::received: started(triggers_.on_received(event.which)); break;
        case What::sent: started(triggers_.on_sent(event.which)); break;
        case What::expired: started(triggers_.expire(event.which)); break;
      }
    }
    return std::move(causes_);
  }

 private:
  enum class What : std::uint8_t { expired, received, sent };
  struct Event {
    Instant at;
    What what;
    std::uint32_t which;
    Cause cause;  // of what expires
    bool operator<(const Event& other) const {
      return std::tie(other.at, other.what, other.which) < std::tie(at, what, which);
    }
  };
  void started(const std::vector<std::uint32_t>& connections) {
    for (const std::uint32_t one : connections) causes_[one] = cause_;
  }

  std::priority_queue<Event> events_;
  Triggers triggers_;
  Instant now_{};
  Cause cause_;
  std::vector<Cause> causes_;
};

}  // namespace

std::vector<StepSpan> steps_by_node(const ConnectionMatrix& matrix,
                                    std::span<const FlowSpan> flows) {
  return collect(matrix, flows, true);
}

std::vector<StepSpan> steps_of(const ConnectionMatrix& matrix, std::span<const FlowSpan> flows) {
  return collect(matrix, flows, false);
}

Chain longest_chain(const ConnectionMatrix& matrix, std::span<const FlowSpan> flows) {
  HAWSER_ASSERT(flows.size() == matrix.connections.size());
  Chain chain;
  std::uint32_t last = Replay::kNone;
  for (std::uint32_t i = 0; i < flows.size(); ++i) {
    if (flows[i].received == kNever) continue;
    if (last == Replay::kNone || flows[i].received > flows[last].received) last = i;
  }
  if (last == Replay::kNone) return chain;
  const std::vector<Replay::Cause> causes = Replay(matrix, flows).run();
  chain.received = flows[last].received;
  Instant until = chain.received;
  for (std::uint32_t at = last; at != Replay::kNone;) {
    chain.connections.push_back(at);
    chain.started = flows[at].started;
    chain.moving = chain.moving + (until - chain.started);
    until = causes[at].at;
    at = causes[at].connection;
  }
  std::ranges::reverse(chain.connections);
  return chain;
}

}  // namespace hawser::fabric
