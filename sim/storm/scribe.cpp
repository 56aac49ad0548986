#include "sim/storm/scribe.hpp"

namespace hawser::sim {

Scribe::Scribe(std::size_t hosts, Recording* recording) : recording_(recording) {
  desks_.reserve(hosts);
  for (std::uint32_t i = 0; i < hosts; ++i) desks_.push_back({this, i, CensusTaker(census_)});
}

void Scribe::hook(void* context, const TraceRecord& record) {
  Desk& desk = *static_cast<Desk*>(context);
  desk.taker.on_trace(record);
  desk.scribe->note(Happening::Kind::traced, desk.host, 0, record);
}

void* Scribe::new_process(std::uint32_t host) {
  desks_[host].taker.restart();
  return &desks_[host];
}

void Scribe::write(Happening::Kind kind, std::uint32_t host, std::uint32_t index,
                   const TraceRecord& record) {
  recording_->add({kind, host, index, events_->now() - start_, record});
}

}  // namespace hawser::sim
