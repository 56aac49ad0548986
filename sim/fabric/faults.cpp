// SPDX-License-Identifier: Apache-2.0
#include "sim/fabric/faults.hpp"

#include <algorithm>
#include <map>
#include <string>

namespace hawser::fabric {

namespace {

using Kind = Fault::Kind;

bool is_of_switch(const Fault& fault) {
  return fault.kind == Kind::switch_down || fault.kind == Kind::switch_up;
}

void check(const Fault& fault, const Wiring& wiring) {
  const std::uint32_t most = is_of_switch(fault) ? wiring.switches() : wiring.links();
  const char* const what = is_of_switch(fault) ? "switch" : "link";
  if (fault.target >= most) {
    throw InputError(std::string("a fault of ") + what + " " + std::to_string(fault.target) +
                     ", but the number must be 0 to " + std::to_string(most - 1));
  }
  if (fault.kind == Kind::link_rate &&
      (fault.bits_per_s < kSlowest || fault.bits_per_s > kFastest)) {
    throw InputError("a link's rate is " + std::to_string(kSlowest) + " to " +
                     std::to_string(kFastest) + " bits/s; one that carries nothing is down");
  }
  if (fault.kind == Kind::link_loss && !(fault.probability >= 0 && fault.probability <= 1)) {
    throw InputError("a probability of loss is 0 to 1");
  }
}

// The links that a fault strikes.
std::vector<std::uint32_t> struck(const Fault& fault, const Wiring& wiring) {
  if (is_of_switch(fault)) return wiring.of_switch(fault.target);
  if (fault.both_ways) return {fault.target, wiring.back(fault.target)};
  return {fault.target};
}

// Checks the faults in the order of time.
void check_order(const std::vector<Fault>& faults, const Wiring& wiring) {
  std::map<std::uint32_t, std::uint32_t> down;
  for (const Fault& fault : faults) {
    const bool falls = fault.kind == Kind::link_down || fault.kind == Kind::switch_down;
    if (!falls && fault.kind != Kind::link_up && fault.kind != Kind::switch_up) continue;
    for (const std::uint32_t link : struck(fault, wiring)) {
      std::uint32_t& depth = down[link];
      if (!falls && depth == 0) {
        throw InputError(
            "link " + std::to_string(link) + " (" + wiring.name(link) +
            ") goes up before it is down: put up only what went down, in the same way");
      }
      depth += falls ? 1 : ~0u;
    }
  }
}

}  // namespace

Faults::Faults(EventWheel& events, Network& network, std::vector<Fault> faults)
    : network_(network), faults_(std::move(faults)) {
  std::ranges::stable_sort(faults_, {}, &Fault::at);
  for (const Fault& fault : faults_) check(fault, network_.wiring());
  check_order(faults_, network_.wiring());
  for (std::uint32_t i = 0; i < faults_.size(); ++i) events.at(faults_[i].at, *this, i);
}

void Faults::on_event(Instant, std::uint32_t number) {
  const Fault& fault = faults_[number];
  for (const std::uint32_t link : struck(fault, network_.wiring())) strike(fault, link);
}

void Faults::strike(const Fault& fault, std::uint32_t link) {
  switch (fault.kind) {
    case Kind::link_down:
    case Kind::switch_down:
      network_.put_down(link);
      if (!fault.silent) network_.tell_port(link);
      return;
    case Kind::link_up:
    case Kind::switch_up:
      network_.put_up(link);
      // Another fault may still keep it down, and that one may be silent.
      if (!network_.link(link).is_down()) network_.tell_port(link);
      return;
    case Kind::link_rate: return network_.set_rate(link, fault.bits_per_s);
    case Kind::link_loss: return network_.set_loss(link, fault.probability);
  }
}

}  // namespace hawser::fabric
