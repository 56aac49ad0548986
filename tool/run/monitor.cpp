// SPDX-License-Identifier: Apache-2.0
#include "tool/run/monitor.hpp"

#include <algorithm>
#include <csignal>

#include <fmt/format.h>

namespace hawser::tool {
namespace {

constexpr std::uint64_t kReportIntervalNs = 200'000'000;
// Reading the statistics costs system calls; a small all-reduce has many waits.
constexpr std::uint64_t kTickIntervalNs = 50'000;
// Ticks come at least every millisecond; the host causes longer gaps.
constexpr std::uint64_t kAwayNs = 3'000'000;

// The faults that are still to come: those that ended earlier lives of the rank have happened.
std::vector<std::uint32_t> faults_of(const RunOptions& options, std::uint32_t rank,
                                     std::uint32_t life) {
  std::vector<std::uint32_t> faults;
  for (std::uint32_t i = 0; i < options.timed_faults.size(); ++i) {
    const TimedFault& fault = options.timed_faults[i];
    if (!fault.concerns(rank)) continue;
    if (fault.kind == TimedFault::Kind::restart_rank && life > 0) {
      --life;
      continue;
    }
    faults.push_back(i);
  }
  return faults;
}

// Grows whenever anything of the rank's traffic makes progress.
std::uint64_t movement(const EndpointStats& stats) {
  return stats.data_bytes_received + stats.messages_sent + stats.messages_received +
         stats.writes_completed + stats.reads_completed + stats.atomics_completed +
         stats.atomics_executed;
}

}  // namespace

std::vector<NicSample> sample_nics(const Endpoint& endpoint) {
  std::vector<NicSample> samples;
  for (NicStats& stats : endpoint.nic_stats()) {
    NicSample sample;
    sample.name = std::move(stats.name);
    sample.state = stats.state;
    sample.packets_sent = stats.packets_sent;
    sample.data_packets_sent = stats.data_packets_sent;
    sample.packets_received = stats.packets_received;
    sample.bytes_sent = stats.bytes_sent;
    sample.bytes_received = stats.bytes_received;
    sample.packets_lost = stats.packets_lost;
    sample.retransmits = stats.retransmits;
    sample.overruns = stats.overruns;
    sample.srtt_ns = stats.srtt_ns;
    samples.push_back(std::move(sample));
  }
  return samples;
}

Monitor::Monitor(const RunOptions& options, std::uint32_t rank, std::uint32_t life,
                 InjectFault inject, const Endpoint& endpoint, PathLog& paths, MessageSink& sink)
    : inject_(std::move(inject)),
      endpoint_(endpoint),
      paths_(paths),
      sink_(sink),
      all_faults_(options.timed_faults),
      faults_(faults_of(options, rank, life)),
      window_(fault_window(options.timed_faults)) {}

void Monitor::begin_run(std::uint64_t now) {
  begun_ns_ = now;
  paths_.begin(now);
  paths_.look();
}

void Monitor::begin_task(std::uint64_t now, double begin, double end, std::uint64_t receive_bytes) {
  while (next_fault_ < faults_.size() && all_faults_[faults_[next_fault_]].when <= begin) {
    apply(faults_[next_fault_++], now);
  }
  const EndpointStats stats = endpoint_.stats();
  in_task_ = true;
  begin_ = begin;
  end_ = end;
  expected_bytes_ = std::max<std::uint64_t>(receive_bytes, 1);
  bytes_at_begin_ = stats.data_bytes_received;
  last_tick_ns_ = last_moved_ns_ = now;
  moved_ = movement(stats);
  longest_gap_ns_ = 0;
}

void Monitor::end_task(std::uint64_t now) {
  end_stall(now);
  // Faults that are due by now still happen in this task. No rank may end itself in the barrier
  // behind it, which some of the others might pass.
  apply_faults(end_, now);
  in_task_ = false;
  begin_ = end_;
}

double Monitor::position(const EndpointStats& stats) const {
  if (!in_task_) return begin_;
  const double arrived = static_cast<double>(stats.data_bytes_received - bytes_at_begin_) /
                         static_cast<double>(expected_bytes_);
  return begin_ + (end_ - begin_) * std::min(arrived, 1.0);
}

void Monitor::tick(std::uint64_t now) {
  if (now - last_tick_ns_ < kTickIntervalNs) return;
  const EndpointStats stats = endpoint_.stats();
  if (in_task_) watch_for_stalls(now, stats);
  paths_.look();
  last_tick_ns_ = now;
  const double where = position(stats);
  if (in_task_) apply_faults(where, now);
  if (now - last_report_ns_ >= kReportIntervalNs) report(now, where);
}

void Monitor::watch_for_stalls(std::uint64_t now, const EndpointStats& stats) {
  longest_gap_ns_ = std::max(longest_gap_ns_, now - last_tick_ns_);
  const std::uint64_t moved = movement(stats);
  if (moved == moved_) return;
  moved_ = moved;
  end_stall(now);
}

void Monitor::end_stall(std::uint64_t now) {
  Stall& longest = stalls_[static_cast<std::size_t>(classify(window_, begin_, end_))];
  const std::uint64_t lasted = now - last_moved_ns_;
  if (lasted > longest.ns) {
    longest = {lasted, longest_gap_ns_ > kAwayNs ? longest_gap_ns_ : 0, begin_};
  }
  last_moved_ns_ = now;
  longest_gap_ns_ = 0;
}

void Monitor::apply_faults(double position, std::uint64_t now) {
  // Strictly less: a fault that is due at the end of a task happens at the start of the next, in
  // its traffic.
  while (next_fault_ < faults_.size() && all_faults_[faults_[next_fault_]].when < position) {
    apply(faults_[next_fault_++], now);
  }
}

void Monitor::apply(std::uint32_t index, std::uint64_t now) {
  const TimedFault& fault = all_faults_[index];
  injected_.push_back({index, now > begun_ns_ ? now - begun_ns_ : 0});
  RankMessage message;
  message.note = describe(fault);
  if (fault.of_nic()) {
    const Status status = inject_(fault.nic, fault_word(fault));
    if (status != Status::ok)
      message.note = fmt::format("{}: {}", *message.note, to_string(status));
  }
  sink_.send(message);
  if (!fault.of_nic()) (void)::raise(SIGKILL);
}

void Monitor::report(std::uint64_t now, double position) {
  last_report_ns_ = now;
  RankMessage message;
  message.progress = Progress{position, sample_nics(endpoint_)};
  sink_.send(message);
}

}  // namespace hawser::tool
