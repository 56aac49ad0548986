// SPDX-License-Identifier: Apache-2.0
#include "sim/storm/widths.hpp"

#include <algorithm>

namespace hawser::sim {

using proto::Duration;
using proto::nanoseconds;

namespace {

// docs/internals/protocol.md, section 4.
constexpr std::uint32_t kHeaders = 80;
constexpr std::uint32_t kLeast = 256;
constexpr std::uint32_t kUnit = 16;

std::uint32_t payload_of(std::uint32_t datagram) {
  return (std::max(datagram, kLeast + kHeaders) - kHeaders) / kUnit * kUnit;
}

}  // namespace

std::uint32_t Widths::own(std::uint32_t host) const {
  const std::uint64_t fragment = plan_.tunables.fragment_bytes + kHeaders;
  return payload_of(static_cast<std::uint32_t>(
      std::min<std::uint64_t>(fragment, plan_.hosts[host].nic.max_datagram_bytes)));
}

std::uint32_t Widths::of_nics(std::uint32_t host, std::uint32_t other) const {
  return std::min(own(host), own(other));
}

std::uint32_t Widths::offer(std::uint32_t host, std::uint32_t other, Duration at) const {
  std::uint32_t least = own(host) + kHeaders;
  for (const FaultPlan& fault : plan_.faults) {
    const bool is_way_there = fault.kind == FaultKind::narrow && fault.host == host &&
                              fault.other_host == other && fault.at <= at &&
                              at < fault.at + fault.lasts;
    if (!is_way_there) continue;
    const PortPlan& from = plan_.hosts[host].nics[fault.nic];
    const PortPlan& to = plan_.hosts[other].nics[fault.other_nic];
    if (from.network == to.network) {
      least = std::min(least, static_cast<std::uint32_t>(fault.amount));
    }
  }
  return payload_of(least);
}

// All offers that the host may have made. An event at the same moment as a change may come before
// it or after it. No session begins before the changes of the first moment.
std::vector<std::uint32_t> Widths::offers(std::uint32_t host, std::uint32_t other, Duration since,
                                          Duration at) const {
  std::vector<std::uint32_t> all{offer(host, other, since)};
  if (since.ns > 0) all.push_back(offer(host, other, since - nanoseconds(1)));
  for (const FaultPlan& fault : plan_.faults) {
    if (fault.kind != FaultKind::narrow || fault.host != host) continue;
    for (const Duration change : {fault.at, fault.at + fault.lasts}) {
      if (since < change && change <= at) all.push_back(offer(host, other, change));
    }
  }
  return all;
}

bool Widths::may_send(std::uint32_t host, std::uint32_t other, std::uint32_t bytes,
                      std::uint32_t most, Duration at) const {
  return std::ranges::any_of(offers(host, other, at, at), [&](std::uint32_t offer) {
    if (offer >= most) return bytes == most;
    return bytes <= offer && bytes * 2 > offer;
  });
}

bool Widths::may_take(std::uint32_t host, std::uint32_t other, std::uint32_t bytes, Duration since,
                      Duration at) const {
  const std::vector<std::uint32_t> mine = offers(host, other, since, at);
  const std::vector<std::uint32_t> theirs = offers(other, host, {}, at);
  return std::ranges::any_of(mine, [&](std::uint32_t one) {
    return std::ranges::any_of(theirs,
                               [&](std::uint32_t two) { return bytes == std::min(one, two); });
  });
}

}  // namespace hawser::sim
