// SPDX-License-Identifier: Apache-2.0
#include "sim/experiment/struck.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace hawser::experiment {

namespace {

using fabric::Fault;
using fabric::Instant;
using Kind = fabric::Fault::Kind;

bool is_of_switch(const Fault& fault) {
  return fault.kind == Kind::switch_down || fault.kind == Kind::switch_up;
}

// The links between ports and leaves that a fault strikes.
std::vector<std::uint32_t> port_links(const Fault& fault, const fabric::Wiring& wiring) {
  std::vector<std::uint32_t> links;
  if (is_of_switch(fault)) {
    links = wiring.of_switch(fault.target);
  } else {
    links.push_back(fault.target);
    if (fault.both_ways) links.push_back(wiring.back(fault.target));
  }
  std::erase_if(links, [&](std::uint32_t link) {
    return !wiring.ends_at_port(link) && !wiring.ends_at_port(wiring.back(link));
  });
  return links;
}

std::uint32_t port_of(std::uint32_t link, const fabric::Wiring& wiring) {
  return wiring.end(wiring.ends_at_port(link) ? link : wiring.back(link));
}

// The state of one port link.
struct LinkState {
  std::uint32_t down = 0;
  bool loses_all = false;
  std::uint64_t bits_per_s = 0;
  [[nodiscard]] bool is_dead() const { return down > 0 || loses_all; }
};

void apply(const Fault& fault, LinkState& link) {
  switch (fault.kind) {
    case Kind::link_down:
    case Kind::switch_down: ++link.down; return;
    case Kind::link_up:
    case Kind::switch_up: --link.down; return;
    case Kind::link_rate: link.bits_per_s = fault.bits_per_s; return;
    case Kind::link_loss: link.loses_all = fault.probability >= 1; return;
  }
}

}  // namespace

Struck::Struck(std::vector<Fault> faults, const fabric::Wiring& wiring) {
  std::ranges::stable_sort(faults, {}, &Fault::at);
  const std::uint32_t nics = wiring.port(1, 0);
  std::set<std::uint32_t> hosts;
  for (const Fault& fault : faults) {
    if (fault.kind == Kind::link_loss && fault.probability < 1) continue;  // its rate is unchanged
    for (const std::uint32_t link : port_links(fault, wiring)) {
      hosts.insert(port_of(link, wiring) / nics);
    }
  }
  std::map<std::uint32_t, LinkState> links;
  for (const std::uint32_t host : hosts) {
    for (std::uint32_t nic = 0; nic < nics; ++nic) {
      const std::uint32_t port = wiring.port(host, nic);
      ports_.push_back(port);
      for (const std::uint32_t link : {wiring.from_port(port), wiring.to_port(port)}) {
        links[link].bits_per_s = wiring.settings(link).bits_per_s;
      }
    }
  }
  const auto note = [&](Instant at) {
    Rates rates{.at = at};
    for (const std::uint32_t port : ports_) {
      const LinkState& from = links[wiring.from_port(port)];
      const LinkState& to = links[wiring.to_port(port)];
      if (from.is_dead() || to.is_dead()) {
        deaths_.push_back({port, at});
        continue;
      }
      rates.from_hosts += from.bits_per_s;
      rates.to_hosts += to.bits_per_s;
    }
    if (!rates_.empty() && rates_.back().at == at) rates_.pop_back();  // one entry for each moment
    rates_.push_back(rates);
  };
  note(Instant{});
  for (const Fault& fault : faults) {
    for (const std::uint32_t link : port_links(fault, wiring)) {
      if (const auto found = links.find(link); found != links.end()) apply(fault, found->second);
    }
    note(fault.at);
  }
  for (const Death& death : deaths_) dead_.push_back(death.port);
  std::ranges::sort(dead_);
  dead_.erase(std::ranges::unique(dead_).begin(), dead_.end());
}

std::uint64_t Struck::bits_per_s(Way way, Instant at) const {
  const Rates* rates = &rates_.front();
  for (const Rates& one : rates_) {
    if (one.at <= at) rates = &one;
  }
  return way == Way::from_hosts ? rates->from_hosts : rates->to_hosts;
}

std::uint64_t Struck::bytes_between(Way way, Instant from, Instant to) const {
  constexpr double kBitsPerByteAndPs = 8e12;
  double bytes = 0;
  Instant at = from;
  while (at < to) {
    Instant next = to;
    for (const Rates& one : rates_) {
      if (at < one.at && one.at < next) next = one.at;
    }
    bytes += static_cast<double>(bits_per_s(way, at)) * static_cast<double>((next - at).ps) /
             kBitsPerByteAndPs;
    at = next;
  }
  return static_cast<std::uint64_t>(bytes);
}

bool Struck::was_dead(std::uint32_t port, Instant at) const {
  return std::ranges::any_of(
      deaths_, [&](const Death& death) { return death.port == port && death.at <= at; });
}

}  // namespace hawser::experiment
