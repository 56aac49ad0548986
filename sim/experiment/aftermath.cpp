// SPDX-License-Identifier: Apache-2.0
#include "sim/experiment/aftermath.hpp"

#include <algorithm>
#include <map>

namespace hawser::experiment {

using fabric::Instant;
using fabric::Span;

Aftermath::Aftermath(fabric::EventWheel& events, fabric::Network& network,
                     const std::vector<fabric::Fault>& faults, bool waits)
    : network_(network), struck_(faults, network.wiring()), waits_(waits), begun_(events.now()) {
  if (!faults.empty()) first_ = std::ranges::min(faults, {}, &fabric::Fault::at).at;
  if (struck_.ports().empty()) return;
  network_.count_ports();
  const auto sum = [this](std::uint64_t fabric::Network::PortBytes::*bytes) {
    return [this, bytes] {
      std::uint64_t all = 0;
      for (const std::uint32_t port : struck_.ports()) all += network_.port_bytes(port).*bytes;
      return all;
    };
  };
  from_hosts_.emplace(events, sum(&fabric::Network::PortBytes::from));
  to_hosts_.emplace(events, sum(&fabric::Network::PortBytes::to));
}

void Aftermath::judge_capacity(const Throughput& all, Instant end,
                               AftermathNumbers& numbers) const {
  if (!from_hosts_) {
    const Span back = capacity_back(all, begun_, *first_, end);
    if (back.ps != fabric::kNever.ps) numbers.capacity_back_ps = back.ps;
    return;
  }
  std::vector<Span> back;
  std::vector<double> used;
  for (const Way way : {Way::from_hosts, Way::to_hosts}) {
    const Throughput& throughput = way == Way::from_hosts ? *from_hosts_ : *to_hosts_;
    const std::uint64_t left = struck_.bits_per_s(way, *first_);
    back.push_back(capacity_back(throughput, begun_, *first_, end, left));
    const Instant until = mostly_come(throughput, begun_, end);
    const std::uint64_t could = struck_.bytes_between(way, *first_, until);
    if (could == 0) return;  // the fault came too late to tell
    const std::uint64_t came = throughput.bytes_until(until) - throughput.bytes_until(*first_);
    used.push_back(static_cast<double>(came) / static_cast<double>(could));
  }
  numbers.left_used = waits_ ? std::ranges::max(used) : std::ranges::min(used);
  const Span judged = std::ranges::max(back);
  if (judged.ps != fabric::kNever.ps) numbers.capacity_back_ps = judged.ps;
}

void Aftermath::judge_blame(const std::vector<Accusation>& accusations,
                            AftermathNumbers& numbers) const {
  std::uint64_t rightly = 0;
  std::uint64_t wrongly = 0;
  std::map<std::uint32_t, Instant> blamed;  // NICs that had died: when first
  for (const Accusation& one : accusations) {
    if (one.at < begun_) continue;
    bool is_right = false;
    for (const std::uint32_t port : {one.from, one.to}) {
      if (!struck_.was_dead(port, one.at)) continue;
      is_right = true;
      blamed.try_emplace(port, one.at);
    }
    ++(is_right ? rightly : wrongly);
  }
  numbers.blamed_rightly = rightly;
  numbers.blamed_wrongly = wrongly;
  numbers.unblamed = struck_.dead().size() - blamed.size();
  for (const auto& [port, at] : blamed) {
    numbers.blamed_ps = std::max(numbers.blamed_ps.value_or(0), (at - *first_).ps);
  }
}

AftermathNumbers Aftermath::conclude(const Carrier& carrier, const Throughput& all, bool ended,
                                     Instant end) const {
  AftermathNumbers numbers;
  if (ended && first_) judge_capacity(all, end, numbers);
  if (carrier.accusations() != nullptr) judge_blame(*carrier.accusations(), numbers);
  return numbers;
}

}  // namespace hawser::experiment
