// SPDX-License-Identifier: Apache-2.0
// What faults came to in a run: when the hosts that were struck used what was left to them, how
// much of it they used, and who was blamed against the truth.
#pragma once

#include <optional>

#include "sim/experiment/carrier.hpp"
#include "sim/experiment/struck.hpp"
#include "sim/experiment/throughput.hpp"

namespace hawser::experiment {

struct AftermathNumbers {
  // From the first fault on, as TrialNumbers has them.
  std::optional<std::int64_t> capacity_back_ps;
  std::optional<double> left_used;
  // Paths that were accused: a NIC of theirs had died, or none had.
  std::optional<std::uint64_t> blamed_rightly;
  std::optional<std::uint64_t> blamed_wrongly;
  std::optional<std::uint64_t> unblamed;  // NICs that died, and of no path that was accused
  std::optional<std::int64_t> blamed_ps;  // until every NIC that was blamed rightly had been once
};

class Aftermath {
 public:
  // Looks from now on, when traffic begins; it lives as long as the events. `waits`: what is sent
  // waits for what is received, as in collectives. Then hosts that use what is left to them one way
  // use it; else both ways count.
  Aftermath(fabric::EventWheel& events, fabric::Network& network,
            const std::vector<fabric::Fault>& faults, bool waits);

  // At the traffic's end. `all` is what came to all ports.
  [[nodiscard]] AftermathNumbers conclude(const Carrier& carrier, const Throughput& all, bool ended,
                                          fabric::Instant end) const;

 private:
  void judge_capacity(const Throughput& all, fabric::Instant end, AftermathNumbers& numbers) const;
  void judge_blame(const std::vector<Accusation>& accusations, AftermathNumbers& numbers) const;

  fabric::Network& network_;
  Struck struck_;
  bool waits_;
  fabric::Instant begun_;
  std::optional<fabric::Instant> first_;  // fault
  std::optional<Throughput> from_hosts_;  // those that were struck; none, if none was
  std::optional<Throughput> to_hosts_;
};

}  // namespace hawser::experiment
