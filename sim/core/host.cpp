// SPDX-License-Identifier: Apache-2.0
#include "sim/core/host.hpp"

#include <utility>

namespace hawser::sim {

Host::Host(EventQueue& events, Fabric& fabric, AddressBook& book, const HostConfig& config,
           std::function<void()> turned)
    : events_(events),
      pool_(config.endpoint.tunables.packet_buffers),
      turned_(std::move(turned)),
      turn_(config.turn),
      wake_up_(config.wake_up),
      clock_(config.clock) {
  std::vector<proto::Nic*> nics;
  for (std::size_t i = 0; i < config.ports.size(); ++i) {
    SimNic::Place place{.port = config.ports[i]};
    if (!config.numbers.empty()) place.number = config.numbers[i];
    if (!config.networks.empty()) place.network = config.networks[i];
    nics_.push_back(std::make_unique<SimNic>(events, fabric, book, place, config.nic, pool_,
                                             config.seed * 64 + i, [this] { wake(); }));
    nics.push_back(nics_.back().get());
  }
  endpoint_ = std::make_unique<proto::Endpoint>(config.endpoint, nics, pool_);
  schedule(events_.now());
}

// Only the earliest one counts.
void Host::schedule(proto::Time at) {
  if (at >= next_turn_) return;
  next_turn_ = proto::later(at, events_.now());
  events_.at(next_turn_, *this, 0);
}

void Host::wake() {
  if (!paused_) schedule(events_.now() + wake_up_ + lateness_);
}

void Host::pause(bool paused) {
  paused_ = paused;
  next_turn_ = proto::kNever;
  if (!paused) schedule(events_.now());
}

void Host::stand(Place place) {
  if (place == to_stand_) return;
  to_stand_ = place;
  if (place == Place::none && stands_at_ != Place::none && !paused_) schedule(events_.now());
}

bool Host::stops_at(Place place) {
  if (to_stand_ != place) return false;
  stands_at_ = place;
  return true;
}

void Host::crash() {
  endpoint_.reset();
  for (const auto& nic : nics_) last_numbers_.push_back(nic->number());
  nics_.clear();
  next_turn_ = wants_ = proto::kNever;
  paused_ = true;
}

void Host::on_event(proto::Time now, std::uint64_t) {
  if (paused_ || now != next_turn_) return;
  next_turn_ = proto::kNever;
  if (stands_at_ != Place::none && to_stand_ != Place::none) return;
  const Place went_on_from = std::exchange(stands_at_, Place::none);
  const proto::Time local = now + clock_;
  switch (went_on_from) {
    case Place::none:
      ++turns_;
      looked_at_clock_ = local;
      if (stops_at(Place::before_looking)) return;
      [[fallthrough]];
    case Place::before_looking:
      first_half_ = now;
      first_look_ = looked_at_clock_;
      endpoint_->begin_turn(looked_at_clock_);
      if (stops_at(Place::between_halves)) return;
      [[fallthrough]];
    case Place::between_halves:
      looked_at_clock_ = local + turn_ / 2;
      if (stops_at(Place::before_sending)) return;
      [[fallthrough]];
    case Place::before_sending: break;
  }
  end_turn(now, endpoint_->finish_turn(looked_at_clock_), went_on_from != Place::none);
}

void Host::end_turn(proto::Time now, const proto::TurnResult& result, bool has_stood) {
  const proto::Time local = now + clock_;
  idle_turns_ = !result.progressed && result.wake_at <= local ? idle_turns_ + 1 : 0;
  wants_ = result.wake_at == proto::kNever ? proto::kNever : result.wake_at - clock_;
  const proto::Time soon = now + turn_;
  if (result.progressed || has_stood) {
    schedule(soon);
  } else {
    if (wants_ != proto::kNever) schedule(proto::later(wants_ + lateness_, soon));
    for (const auto& nic : nics_) {
      if (nic->next_reap() != proto::kNever) schedule(proto::later(nic->next_reap(), soon));
    }
  }
  turned_();
}

}  // namespace hawser::sim
