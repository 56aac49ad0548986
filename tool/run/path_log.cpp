// SPDX-License-Identifier: Apache-2.0
#include "tool/run/path_log.hpp"

#include <array>
#include <optional>
#include <span>

namespace hawser::tool {
namespace {

using Change = PathChange::Kind;

std::optional<Change> change_of(Event::Kind kind) {
  switch (kind) {
    case Event::Kind::path_down: return Change::path_down;
    case Event::Kind::path_up: return Change::path_up;
    case Event::Kind::nic_down: return Change::driver_down;
    case Event::Kind::nic_up: return Change::driver_up;
    case Event::Kind::verdict_reached: return Change::blamed;
    case Event::Kind::verdict_withdrawn: return Change::cleared;
    default: return std::nullopt;
  }
}

}  // namespace

void PathLog::look() {
  std::array<Event, 32> events;
  for (std::size_t n = events.size(); n == events.size();) {
    n = endpoint_.poll_events(events);
    for (const Event& event : std::span(events).first(n)) take(event);
  }
}

void PathLog::take(const Event& event) {
  left_out_ += event.number - next_number_;
  next_number_ = event.number + 1;
  const auto kind = change_of(event.kind);
  if (!kind) return;
  if (changes_.size() == kMaxChanges) {
    ++left_out_;
    return;
  }
  PathChange change;
  change.kind = *kind;
  change.at_ns = event.time_ns > begun_ns_ ? event.time_ns - begun_ns_ : 0;
  change.nic = event.nic;
  change.blame = event.blame;
  if (event.endpoint_id != 0) {
    change.peer = static_cast<std::uint32_t>(event.endpoint_id - 1);
    change.remote_nic = event.remote_nic;
  }
  changes_.push_back(change);
}

}  // namespace hawser::tool
