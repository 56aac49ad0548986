// SPDX-License-Identifier: Apache-2.0
#include "sim/traffic/triggers.hpp"

#include <unordered_map>

namespace hawser::fabric {

Triggers::Triggers(const ConnectionMatrix& matrix, Later later) : later_(std::move(later)) {
  std::unordered_map<std::uint32_t, std::uint32_t> places;
  places.reserve(matrix.triggers.size());
  for (const Trigger& trigger : matrix.triggers) {
    places[trigger.id] = static_cast<std::uint32_t>(states_.size());
    State& state = states_.emplace_back();
    state.kind = trigger.kind;
    state.delay = trigger.delay;
    if (trigger.kind == Trigger::Kind::barrier) state.missing = trigger.count;
  }
  for (std::size_t place = 0; place < states_.size(); ++place) {
    for (const std::uint32_t id : matrix.triggers[place].then) {
      states_[place].then.push_back(places.at(id));
    }
  }
  const auto place_of = [&](std::uint32_t id) { return id == 0 ? kNone : places.at(id); };
  for (std::uint32_t i = 0; i < matrix.connections.size(); ++i) {
    const Connection& one = matrix.connections[i];
    when_sent_.push_back(place_of(one.when_sent));
    when_received_.push_back(place_of(one.when_received));
    if (one.trigger != 0) states_[place_of(one.trigger)].waiting.push_back(i);
  }
}

void Triggers::release(std::uint32_t place, std::vector<std::uint32_t>& fired,
                       std::vector<std::uint32_t>& started) const {
  const State& state = states_[place];
  started.insert(started.end(), state.waiting.begin(), state.waiting.end());
  fired.insert(fired.end(), state.then.begin(), state.then.end());
}

void Triggers::go_off(std::uint32_t place, std::vector<std::uint32_t>& fired,
                      std::vector<std::uint32_t>& started) {
  if (later_ && states_[place].delay > Span{}) {
    later_(place, states_[place].delay);
  } else {
    release(place, fired, started);
  }
}

// Fires triggers one after the other, without recursion: chains may be as long as the matrix. The
// loop ends, as only a multishot fires more than once, and it fires no other trigger.
std::vector<std::uint32_t> Triggers::spread(std::vector<std::uint32_t> fired,
                                            std::vector<std::uint32_t> started) {
  while (!fired.empty()) {
    const std::uint32_t place = fired.back();
    fired.pop_back();
    State& state = states_[place];
    if (state.kind == Trigger::Kind::multishot) {
      if (state.started < state.waiting.size()) started.push_back(state.waiting[state.started++]);
      continue;
    }
    if (state.missing > 0 && --state.missing == 0) go_off(place, fired, started);
  }
  return started;
}

std::vector<std::uint32_t> Triggers::fire(std::uint32_t place) {
  if (place == kNone) return {};
  return spread({place}, {});
}

std::vector<std::uint32_t> Triggers::on_sent(std::uint32_t connection) {
  return fire(when_sent_[connection]);
}

std::vector<std::uint32_t> Triggers::on_received(std::uint32_t connection) {
  return fire(when_received_[connection]);
}

std::vector<std::uint32_t> Triggers::begin() {
  std::vector<std::uint32_t> at_once;
  for (std::uint32_t place = 0; place < states_.size(); ++place) {
    const State& state = states_[place];
    if (state.kind == Trigger::Kind::barrier && state.missing == 0) at_once.push_back(place);
  }
  std::vector<std::uint32_t> fired;
  std::vector<std::uint32_t> started;
  for (const std::uint32_t place : at_once) go_off(place, fired, started);
  return spread(std::move(fired), std::move(started));
}

std::vector<std::uint32_t> Triggers::expire(std::uint32_t trigger) {
  std::vector<std::uint32_t> fired;
  std::vector<std::uint32_t> started;
  release(trigger, fired, started);
  return spread(std::move(fired), std::move(started));
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
  for (const std::uint32_t i : triggers.begin()) start(i);
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
