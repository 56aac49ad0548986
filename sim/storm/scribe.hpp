// SPDX-License-Identifier: Apache-2.0
// The observer of a running storm. It always counts for the census and checks for needless probes.
// It also writes a recording if there is one. It changes nothing of what happens.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/core/event_queue.hpp"
#include "sim/storm/census.hpp"
#include "sim/storm/chatter.hpp"
#include "sim/storm/plan.hpp"
#include "sim/storm/recording.hpp"

namespace hawser::sim {

class Scribe {
 public:
  // `recording` may be null.
  Scribe(const Plan& plan, Recording* recording);

  // Times are counted from now on.
  void begin(const EventQueue& events) {
    events_ = &events;
    start_ = events.now();
  }
  [[nodiscard]] bool records() const { return recording_ != nullptr; }
  // For EndpointConfig::trace, and the context of a new process of that host.
  static void hook(void* context, const TraceRecord& record);
  [[nodiscard]] void* new_process(std::uint32_t host);

  void on_event(std::uint32_t host, const Event& event) { desks_[host].taker.on_event(event); }
  void count_place(PlaceCell cell, std::uint64_t times = 1) {
    census_.count<CensusGroup::place>(static_cast<std::size_t>(cell), times);
  }
  void count_way(WayCell cell, std::uint64_t times = 1) {
    census_.count<CensusGroup::way>(static_cast<std::size_t>(cell), times);
  }
  void count_one_sided(OneSidedCell cell) {
    census_.count<CensusGroup::one_sided>(static_cast<std::size_t>(cell));
  }
  // The functions below are for the recording only.
  void note(Happening::Kind kind, std::uint32_t host, std::uint32_t index,
            const TraceRecord& record = {}) {
    if (recording_ != nullptr) write(kind, host, index, record);
  }

  [[nodiscard]] const Census& census() const { return census_; }
  // The first forbidden event that it saw; empty if there is none.
  [[nodiscard]] const std::string& complaint() const { return complaint_; }

 private:
  struct Desk {
    Scribe* scribe;
    std::uint32_t host;
    CensusTaker taker;
    Chatter chatter{};
  };
  void on_probe(Desk& desk, const TraceRecord& record);
  void write(Happening::Kind kind, std::uint32_t host, std::uint32_t index,
             const TraceRecord& record);

  Census census_;
  Recording* recording_;
  const EventQueue* events_ = nullptr;
  proto::Time start_{};
  proto::Duration shortest_timer_;
  std::string complaint_;
  std::vector<Desk> desks_;
};

}  // namespace hawser::sim
