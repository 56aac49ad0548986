// SPDX-License-Identifier: Apache-2.0
#include "sim/experiment/trial.hpp"

#include <algorithm>
#include <map>

#include "sim/experiment/ideal.hpp"
#include "sim/experiment/senders.hpp"
#include "sim/experiment/traffic.hpp"

namespace hawser::experiment {

namespace {

using fabric::Instant;
using fabric::kNever;

constexpr std::size_t kHeaderRoom = 128;  // the protocol's usual headers fit

std::int64_t since(Instant at, Instant begun) { return at == kNever ? -1 : (at - begun).ps; }

std::vector<std::uint64_t> link_bytes(const fabric::Network& network) {
  std::vector<std::uint64_t> bytes;
  for (std::uint32_t i = 0; i < network.wiring().links(); ++i) {
    bytes.push_back(network.link(i).counters().bytes);
  }
  return bytes;
}

FlowResult result_of(const fabric::Connection& flow, const FlowTimes& times, const FlowIdeal& ideal,
                     Instant begun) {
  FlowResult result;
  result.from = flow.from;
  result.to = flow.to;
  result.step = ideal.step;
  result.bytes = flow.bytes;
  result.started_ps = since(times.started, begun);
  result.received_ps = since(times.received, begun);
  result.ended_ps = since(times.ended, begun);
  result.ideal_ps = (ideal.ended - ideal.started).ps;
  return result;
}

// A step takes from its first flow's start to its last one's end.
std::vector<std::int64_t> step_excesses(const std::vector<FlowResult>& flows, const Ideal& ideal) {
  struct Times {
    std::int64_t started = kNever.ps;
    std::int64_t ended = 0;
  };
  std::vector<Times> steps(ideal.steps.size());
  for (const FlowResult& flow : flows) {
    Times& step = steps[flow.step];
    step.started = std::min(step.started, flow.started_ps);
    step.ended = std::max(step.ended, flow.ended_ps);
  }
  std::vector<std::int64_t> excesses;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::int64_t at_best = (ideal.steps[i].ended - ideal.steps[i].started).ps;
    excesses.push_back(steps[i].ended - steps[i].started - at_best);
  }
  std::ranges::sort(excesses);
  return excesses;
}

void count_flows(const std::vector<FlowResult>& flows, const Ideal& ideal, TrialNumbers& numbers) {
  std::vector<std::int64_t> times;
  std::vector<std::int64_t> excesses;
  std::int64_t first = kNever.ps;
  std::int64_t last = 0;
  numbers.flows = flows.size();
  for (const FlowResult& flow : flows) {
    if (!flow.has_ended()) continue;
    ++numbers.ended;
    numbers.bytes += flow.bytes;
    times.push_back(flow.took_ps());
    excesses.push_back(flow.excess_ps());
    first = std::min(first, flow.ended_ps);
    last = std::max(last, flow.ended_ps);
  }
  numbers.ideal_ps = (ideal.last - Instant{}).ps;
  if (times.empty()) return;
  numbers.first_ps = first;
  // Percentiles mean something only if all flows have ended.
  if (numbers.ended < numbers.flows) return;
  std::ranges::sort(times);
  std::ranges::sort(excesses);
  numbers.p50_ps = percentile(times, 50, 100);
  numbers.p99_ps = percentile(times, 99, 100);
  numbers.last_ps = last;
  numbers.p50_excess_ps = percentile(excesses, 50, 100);
  numbers.p99_excess_ps = percentile(excesses, 99, 100);
  numbers.p99_step_excess_ps = percentile(step_excesses(flows, ideal), 99, 100);
}

void count_packets(const Carrier& carrier, const fabric::Network& network,
                   const fabric::LinkCounters& before, TrialNumbers& numbers) {
  const CarrierTotals totals = carrier.totals();
  numbers.data_packets = totals.data_packets;
  numbers.retransmitted = totals.retransmitted;
  numbers.duplicates = totals.duplicates;
  const fabric::LinkCounters links = network.totals();
  numbers.dropped = links.dropped - before.dropped;
  numbers.trimmed = links.trimmed - before.trimmed;
  numbers.marked = links.marked - before.marked;
  numbers.lost = links.lost - before.lost;
  numbers.cut = links.cut - before.cut;
  numbers.digest = network.digest();
}

bool is_end(const fabric::Fault& fault, const fabric::Wiring& wiring) {
  using Kind = fabric::Fault::Kind;
  switch (fault.kind) {
    case Kind::link_up:
    case Kind::switch_up: return true;
    case Kind::link_rate: return fault.bits_per_s == wiring.settings(fault.target).bits_per_s;
    case Kind::link_loss: return fault.probability == 0;
    default: return false;
  }
}

// Whether the matrix is a collective, in which a node's later sends wait for its receives.
bool has_steps(const fabric::ConnectionMatrix& matrix) {
  return std::ranges::any_of(matrix.connections,
                             [](const fabric::Connection& one) { return one.step > 1; });
}

double microseconds_of(std::int64_t ps) { return static_cast<double>(ps) * 1e-6; }

template <class T>
std::optional<double> in_us(const std::optional<T>& ps) {
  return ps ? std::optional<double>(microseconds_of(*ps)) : std::nullopt;
}

}  // namespace

std::int64_t percentile(const std::vector<std::int64_t>& sorted, std::uint64_t part,
                        std::uint64_t whole) {
  const std::uint64_t rank = (sorted.size() * part + whole - 1) / whole;
  return sorted[std::max<std::uint64_t>(rank, 1) - 1];
}

std::optional<double> TrialNumbers::value(Metric metric) const {
  switch (metric) {
    case Metric::last_flow_us: return in_us(last_ps);
    case Metric::last_flow_over_ideal:
      if (!last_ps) return std::nullopt;
      return static_cast<double>(*last_ps) / static_cast<double>(ideal_ps);
    case Metric::p99_flow_excess_us: return in_us(p99_excess_ps);
    case Metric::p99_step_excess_us: return in_us(p99_step_excess_ps);
    case Metric::goodput: {
      if (!last_ps || *last_ps == 0) return std::nullopt;
      constexpr double kGigabitsPerByteAndPs = 8e3;
      return static_cast<double>(bytes) * kGigabitsPerByteAndPs / static_cast<double>(*last_ps);
    }
    case Metric::retransmitted:
      return ended == flows ? std::optional<double>(retransmitted) : std::nullopt;
    case Metric::capacity_back_us: return in_us(aftermath.capacity_back_ps);
    case Metric::left_used: return aftermath.left_used;
    case Metric::blamed_wrongly:
      if (ended < flows || !aftermath.blamed_wrongly) return std::nullopt;
      return static_cast<double>(*aftermath.blamed_wrongly);
    case Metric::resent_in_vain:
      if (ended < flows || data_packets == 0) return std::nullopt;
      return static_cast<double>(duplicates) / static_cast<double>(data_packets);
  }
  return std::nullopt;
}

Trial run_trial(const Plan& plan, std::string_view sender, std::uint64_t seed) {
  const fabric::Shape& shape = plan.fabric.shape;
  fabric::ConnectionMatrix matrix = make_matrix(plan.traffic, shape.hosts, seed);
  const PacketFormat format{.payload_bytes = proto::NicCaps{}.payload_bytes,
                            .overhead_bytes = plan.fabric.nic.overhead_bytes};
  const Ideal ideal = ideal_completion(matrix, shape, format);
  add_beside(plan.traffic, shape.hosts, seed, matrix);
  fabric::EventWheel events;
  fabric::Network network(events, shape, seed, kHeaderRoom);
  const std::unique_ptr<Carrier> carrier = make_carrier(
      sender, {events, network, matrix, plan.fabric.nic, shape.nics, plan.hints, seed});
  Trial trial;
  trial.sessions_up = carrier->connect(plan.limit);
  const Instant begun = events.now();
  const std::vector<fabric::Fault> faults = faults_of(plan, network.wiring(), seed, begun);
  const fabric::Faults strikes(events, network, faults);
  const fabric::LinkCounters before = network.totals();
  trial.links = link_bytes(network);
  Throughput throughput(events, network);
  const Aftermath aftermath(events, network, faults, has_steps(matrix));
  const bool all = trial.sessions_up && carrier->run(plan.limit);
  for (std::uint32_t i = 0; i < ideal.flows.size(); ++i) {  // background flows aren't measured
    trial.flows.push_back(
        result_of(matrix.connections[i], carrier->times(i), ideal.flows[i], begun));
  }
  count_flows(trial.flows, ideal, trial.numbers);
  count_packets(*carrier, network, before, trial.numbers);
  trial.lasted_ps = all ? *trial.numbers.last_ps : (events.now() - begun).ps;
  const Instant end = begun + fabric::Span{trial.lasted_ps};
  trial.slices = throughput.slices(begun, end, Trial::kSlices);
  const std::vector<std::uint64_t> after = link_bytes(network);
  for (std::size_t i = 0; i < after.size(); ++i) trial.links[i] = after[i] - trial.links[i];
  for (const fabric::Fault& fault : faults) {
    trial.faults.push_back({(fault.at - begun).ps, is_end(fault, network.wiring())});
  }
  std::ranges::stable_sort(trial.faults, {}, &FaultMark::at_ps);
  trial.numbers.aftermath = aftermath.conclude(*carrier, throughput, all, end);
  return trial;
}

}  // namespace hawser::experiment
