#include "sim/traffic/triggers.hpp"

namespace hawser::fabric {

Triggers::Triggers(const ConnectionMatrix& matrix) {
  for (const Trigger& trigger : matrix.triggers) {
    State& state = states_[trigger.id];
    state.kind = trigger.kind;
    if (trigger.kind == Trigger::Kind::barrier) state.missing = trigger.count;
  }
  for (std::uint32_t i = 0; i < matrix.connections.size(); ++i) {
    const Connection& one = matrix.connections[i];
    when_sent_.push_back(one.when_sent);
    when_received_.push_back(one.when_received);
    if (one.trigger != 0) states_.at(one.trigger).waiting.push_back(i);
  }
}

std::vector<std::uint32_t> Triggers::fire(std::uint32_t trigger) {
  if (trigger == 0) return {};
  State& state = states_.at(trigger);
  if (state.kind == Trigger::Kind::multishot) {
    if (state.started == state.waiting.size()) return {};
    return {state.waiting[state.started++]};
  }
  if (state.missing == 0 || --state.missing > 0) return {};
  return state.waiting;
}

std::optional<std::uint32_t> waits_for_ever(const ConnectionMatrix& matrix) {
  Triggers triggers(matrix);
  std::vector<bool> started(matrix.connections.size(), false);
  std::vector<std::uint32_t> ending;
  const auto start = [&](std::uint32_t i) {
    started[i] = true;
    ending.push_back(i);
  };
  for (std::uint32_t i = 0; i < matrix.connections.size(); ++i) {
    if (matrix.connections[i].trigger == 0) start(i);
  }
  for (std::size_t next = 0; next < ending.size(); ++next) {
    const std::uint32_t one = ending[next];
    for (const std::uint32_t i : triggers.on_received(one)) start(i);
    for (const std::uint32_t i : triggers.on_sent(one)) start(i);
  }
  for (std::uint32_t i = 0; i < started.size(); ++i) {
    if (!started[i]) return i;
  }
  return std::nullopt;
}

}  // namespace hawser::fabric
