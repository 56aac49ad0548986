// SPDX-License-Identifier: Apache-2.0
#include "sim/experiment/fabric_host.hpp"

#include <algorithm>

namespace hawser::experiment {

FabricHost::FabricHost(const HostsShare& share, const HostConfig& config,
                       std::function<void()> turned)
    : events_(share.events),
      turned_(std::move(turned)),
      turn_(config.turn),
      packet_(config.packet) {
  std::vector<proto::Nic*> nics;
  for (const std::uint32_t port : config.ports) {
    nics_.push_back(std::make_unique<FabricNic>(share.events, share.network, port, config.nic,
                                                share.pool, share.slots, [this] { wake(); }));
    nics.push_back(nics_.back().get());
  }
  endpoint_ = std::make_unique<proto::Endpoint>(config.endpoint, nics, share.pool);
  wake();
}

// Only the earliest one counts.
void FabricHost::schedule(fabric::Instant at) {
  at = std::max({at, free_, events_.now()});
  if (at >= next_turn_) return;
  next_turn_ = at;
  events_.at(at, *this, 0);
}

std::uint64_t FabricHost::packets() const {
  std::uint64_t packets = 0;
  for (const auto& nic : nics_) packets += nic->counters().sent + nic->counters().received;
  return packets;
}

void FabricHost::on_event(fabric::Instant now, std::uint32_t) {
  if (now != next_turn_) return;
  next_turn_ = fabric::kNever;
  ++turns_;
  const std::uint64_t before = packets();
  endpoint_->begin_turn(local_time(now));
  const fabric::Span receiving = packet_ * static_cast<std::int64_t>(packets() - before);
  const proto::TurnResult result = endpoint_->finish_turn(local_time(now + receiving));
  for (const auto& nic : nics_) nic->end_views();
  free_ = now + turn_ + packet_ * static_cast<std::int64_t>(packets() - before);
  if (result.progressed) {
    schedule(free_);
  } else {
    if (result.wake_at != proto::kNever) schedule(global_time(result.wake_at));
    for (const auto& nic : nics_) {
      if (nic->next_reap() != fabric::kNever) schedule(nic->next_reap());
    }
  }
  turned_();
}

}  // namespace hawser::experiment
