// SPDX-License-Identifier: Apache-2.0
// The consequences of faults in a run. They are when the hosts with failed NICs used their
// remaining capacity, how much of it they used, and which paths were blamed rightly or wrongly.
#pragma once

#include <optional>

#include "sim/experiment/carrier.hpp"
#include "sim/experiment/struck.hpp"
#include "sim/experiment/throughput.hpp"

namespace hawser::experiment {

struct AftermathNumbers {
  // From the first fault on, as in TrialNumbers.
  std::optional<std::int64_t> capacity_back_ps;
  std::optional<double> left_used;
  // Accused paths of which a NIC had died, and those of which none had.
  std::optional<std::uint64_t> blamed_rightly;
  std::optional<std::uint64_t> blamed_wrongly;
  std::optional<std::uint64_t> unblamed;  // NICs that died although no path of theirs was accused
  std::optional<std::int64_t> blamed_ps;  // until each rightly blamed NIC had been blamed once
};

class Aftermath {
 public:
  // Counts from now on, when traffic begins; it lives as long as the events. With `waits`, sends
  // wait for receives, as in collectives: a host then uses its remaining capacity if it does so in
  // either direction. Otherwise both directions count.
  Aftermath(fabric::EventWheel& events, fabric::Network& network,
            const std::vector<fabric::Fault>& faults, bool waits);

  // At the traffic's end. `all` counts what came to all ports.
  [[nodiscard]] AftermathNumbers conclude(const Carrier& carrier, const Throughput& all, bool ended,
                                          fabric::Instant end) const;

 private:
  void judge_capacity(const Throughput& all, fabric::Instant end, AftermathNumbers& numbers) const;
  void judge_blame(const std::vector<Accusation>& accusations, AftermathNumbers& numbers) const;

  fabric::Network& network_;
  Struck struck_;
  bool waits_;
  fabric::Instant begun_;
  std::optional<fabric::Instant> first_;  // the first fault
  std::optional<Throughput> from_hosts_;  // of the hosts that a fault struck, if any
  std::optional<Throughput> to_hosts_;
};

}  // namespace hawser::experiment
