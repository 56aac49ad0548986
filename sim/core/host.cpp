#include "sim/core/host.hpp"

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
    const std::uint32_t number = config.numbers.empty() ? SimNic::kOwnNumber : config.numbers[i];
    nics_.push_back(std::make_unique<SimNic>(events, fabric, book, config.ports[i], config.nic,
                                             pool_, config.seed * 64 + i, number,
                                             [this] { wake(); }));
    nics.push_back(nics_.back().get());
  }
  endpoint_ = std::make_unique<proto::Endpoint>(config.endpoint, nics, pool_);
  schedule(events_.now());
}

// The earliest one counts.
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
  ++turns_;
  const proto::Time local = now + clock_;
  endpoint_->begin_turn(local);
  const proto::TurnResult result = endpoint_->finish_turn(local + turn_ / 2);
  idle_turns_ = !result.progressed && result.wake_at <= local ? idle_turns_ + 1 : 0;
  wants_ = result.wake_at == proto::kNever ? proto::kNever : result.wake_at - clock_;
  const proto::Time soon = now + turn_;
  if (result.progressed) {
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
