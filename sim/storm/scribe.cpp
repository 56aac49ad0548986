// SPDX-License-Identifier: Apache-2.0
#include "sim/storm/scribe.hpp"

#include <algorithm>

namespace hawser::sim {

Scribe::Scribe(const Plan& plan, Recording* recording)
    : recording_(recording),
      shortest_timer_(proto::microseconds(
          std::min(plan.tunables.path_probe_min_us, plan.tunables.timer_granularity_us))) {
  const auto hosts = static_cast<std::uint32_t>(plan.hosts.size());
  desks_.reserve(hosts);
  for (std::uint32_t i = 0; i < hosts; ++i) desks_.push_back({this, i, CensusTaker(census_)});
}

void Scribe::hook(void* context, const TraceRecord& record) {
  Desk& desk = *static_cast<Desk*>(context);
  desk.taker.on_trace(record);
  if (record.kind == TraceKind::path_probe) desk.scribe->on_probe(desk, record);
  if (record.kind == TraceKind::packet_lost && record.message != kNoTraceNumber)
    desk.chatter.on_loss(record);
  desk.scribe->note(Happening::Kind::traced, desk.host, 0, record);
}

void* Scribe::new_process(std::uint32_t host) {
  desks_[host].taker.restart();
  desks_[host].chatter.restart();
  return &desks_[host];
}

void Scribe::on_probe(Desk& desk, const TraceRecord& record) {
  const std::string what = desk.chatter.on_probe(record, events_->now(), shortest_timer_);
  if (complaint_.empty() && !what.empty()) {
    complaint_ = "host " + std::to_string(desk.host) + ": " + what;
  }
}

void Scribe::write(Happening::Kind kind, std::uint32_t host, std::uint32_t index,
                   const TraceRecord& record) {
  recording_->add({kind, host, index, events_->now() - start_, record});
}

}  // namespace hawser::sim
